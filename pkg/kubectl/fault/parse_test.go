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

// texts are the errors in testdata. A line of drivers.txt begins with the driver and the request.
func texts(tb testing.TB) (texts []string) {
	tb.Helper()
	for _, file := range []string{"components.txt", "drivers.txt"} {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		assert.NilError(tb, err)
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSuffix(line, "\n")
			if file == "drivers.txt" {
				_, line, _ = strings.Cut(line, ": rpc error")
				line = "rpc error" + line
			}
			if line != "" && line[0] != '#' {
				texts = append(texts, strings.ReplaceAll(line, `\n`, "\n"))
			}
		}
	}
	return texts
}

// TestPartsOfErrors compares the parts of the errors in testdata with those in parts.txt.
func TestPartsOfErrors(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, text := range texts(t) {
		f := fault.Parse(text)
		fmt.Fprintf(&b, "%s\n", strings.ReplaceAll(text, "\n", `\n`))
		part(&b, "by", string(f.Reporter))
		part(&b, "operation", f.Operation)
		part(&b, "code", f.Code)
		for _, noun := range slices.Sorted(maps.Keys(f.Names)) {
			part(&b, string(noun), f.Names[noun])
		}
		if a := f.Answer; a != nil {
			part(&b, "answer", fmt.Sprintf("%d %s %s %s %s", a.Status, a.Method, a.Service, a.Resource,
				a.Kind))
		}
		if f.Command != nil {
			part(&b, "command", f.Command.Name+" "+f.Command.Arguments+" => "+f.Command.Exit)
		}
		if f.Quota != nil {
			part(&b, "quota", fmt.Sprint(*f.Quota))
		}
		if f.Scheduling != nil {
			part(&b, "nodes", fmt.Sprint(f.Scheduling.Nodes, f.Scheduling.Reasons))
		}
		part(&b, "leaf", string(f.Leaf))
		part(&b, "message", f.Message)
		part(&b, "words", f.Words)
	}
	golden.Match(t, "testdata/parts.txt", b.String())
}

func part(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, "    %s: %s\n", name, strings.ReplaceAll(value, "\n", `\n`))
	}
}

// TestFormatsExplainTexts checks what Match promises to those who compare messages.
func TestFormatsExplainTexts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		format, text string
		want         map[fault.Noun]string
	}{
		{"Volume {volume} could not be found.", "Volume a could not be found.", map[fault.Noun]string{
			"volume": "a",
		}},
		{"Volume type with name {name} could not be found.", "Volume type with name my type could not " +
			"be found.", map[fault.Noun]string{"name": "my type"}},
		{"Volume {volume} could not be found.", "Volume a could not be found. Or not.", nil},
		{"share {share} not found", `share a: b not found`, nil},
	} {
		got, found := fault.Match(test.format, test.text)
		assert.Equal(t, found, test.want != nil, test.text)
		if found {
			assert.DeepEqual(t, got, test.want)
		}
	}
}
