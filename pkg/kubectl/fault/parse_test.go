package fault_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/test/golden"
)

func lines(tb testing.TB, file string) (found []string) {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	assert.NilError(tb, err)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			found = append(found, strings.ReplaceAll(line, `\n`, "\n"))
		}
	}
	return found
}

// texts are the errors in testdata. A line of drivers.txt begins with the driver and its request.
func texts(tb testing.TB) []string {
	tb.Helper()
	all := lines(tb, "components.txt")
	for _, line := range lines(tb, "drivers.txt") {
		_, text := cutRequest(line)
		all = append(all, text)
	}
	return all
}

func cutRequest(line string) (request, text string) {
	i := strings.Index(line, ": rpc error: ")
	return line[:i], line[i+2:]
}

// TestPartsOfErrors compares the parts of the errors in testdata with those in parts.txt.
func TestPartsOfErrors(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, text := range lines(t, "components.txt") {
		fmt.Fprintf(&b, "%s\n    %s\n", flat(text), flat(strings.Join(parts(text), "\n    ")))
	}
	var drivers []string
	for _, line := range lines(t, "drivers.txt") {
		request, text := cutRequest(line)
		drivers = append(drivers, request+": "+flat(strings.Join(parts(text), "; ")))
	}
	b.WriteString(strings.Join(slices.Compact(drivers), "\n") + "\n")
	golden.Match(t, "testdata/parts.txt", b.String())
}

// flat writes line breaks that are not the indentation of parts as \n.
func flat(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(
		strings.ReplaceAll(text, "\n    ", "\x00"), "\n", `\n`), "\x00", "\n    ")
}

func parts(text string) (parts []string) {
	f := fault.Parse(text)
	add := func(name, value string) {
		if value = strings.TrimSpace(value); value != "" {
			parts = append(parts, name+": "+value)
		}
	}
	add("by", string(f.Reporter))
	add("operation", f.Operation)
	add("code", f.Code)
	for _, noun := range slices.Sorted(maps.Keys(f.Names)) {
		add(string(noun), f.Names[noun])
	}
	if a := f.Answer; a != nil {
		add("answer", fmt.Sprintf("%d %s %s %s %s", a.Status, a.Method, a.Service, a.Resource, a.Kind))
	}
	if c := f.Command; c != nil {
		add("command", c.Name+" "+c.Arguments+" => "+c.Exit)
	}
	if f.Quota != nil {
		add("quota", fmt.Sprint(*f.Quota))
	}
	if f.Scheduling != nil {
		add("nodes", fmt.Sprint(f.Scheduling.Nodes, f.Scheduling.Reasons))
	}
	add("leaf", string(f.Leaf))
	add("message", f.Message)
	return parts
}
