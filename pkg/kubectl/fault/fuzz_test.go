package fault_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/test/budget"
)

// FuzzText searches for a text whose parts contradict each other, or that costs too much, also if
// it is repeated.
func FuzzText(f *testing.F) {
	for _, part := range []string{
		": ", "a: ", `"`, `"a`, "[", "[a] ", `a "b" `, "rpc error: code = A desc = ", `Get "a": `, "{",
		"Unable to re-authenticate: ", `connection error: desc = "`, "failed to attach: ", ". ", "'",
		"0/5 nodes are available: ", "1 a, ", "E1128 1 1 a.go:1] ", `{"a":`, " error: 1. a output: ",
		"\n",
		"Expected HTTP response code [1] when accessing [A b], but got 400 instead: {",
	} {
		f.Add(part)
	}
	for _, text := range lines(f, "components.txt") {
		f.Add(text[:len(text)*2/3])
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, start := range []string{"", "rpc error: code = Internal desc = "} {
			many := budget.Repeated(start, text+" ", 32<<10)
			budget.Check(t, func() { check(t, many) })
		}
		check(t, text)
	})
}

// check checks that the parts of an error fit together.
func check(t *testing.T, text string) {
	t.Helper()
	got := fault.Parse(text)
	assert.Equal(t, got.Text, text)
	assert.Equal(t, got.Leaf == fault.Answered, got.Answer != nil)
	assert.Equal(t, got.Leaf == fault.ExceededQuota, got.Quota != nil)
	assert.Equal(t, got.Leaf == fault.Unschedulable, got.Scheduling != nil)
	assert.Equal(t, got.Leaf == fault.Mount || got.Leaf == fault.CommandFailed, got.Command != nil)
}

func TestNamesHaveNoMeaning(t *testing.T) {
	t.Parallel()
	for _, text := range texts(t) {
		for _, word := range misleading() {
			checkNames(t, text, word)
		}
	}
}

// FuzzNames searches for a name that is read as a part of an error.
func FuzzNames(f *testing.F) {
	all, words := texts(f), misleading()
	for i := range all[:len(words)] {
		f.Add(i, words[i])
	}
	f.Fuzz(func(t *testing.T, i int, word string) { checkNames(t, all[max(i, -i-1)%len(all)], word) })
}

// checkNames replaces each name in an error by a word, and compares the other parts.
func checkNames(t *testing.T, text, word string) {
	t.Helper()
	before, name := fault.Parse(text), nameOf(word)
	for noun, old := range before.Names {
		if noun == fault.Status || noun == fault.Resource || noun == fault.URL {
			continue
		}
		if quoted := `"` + old + `"`; strings.Count(text, quoted) == strings.Count(text, old) {
			text = strings.ReplaceAll(text, quoted, `"`+quotable(word)+`"`)
		}
		text = strings.ReplaceAll(text, old, name)
	}
	assert.DeepEqual(t, shapeOf(fault.Parse(text)), shapeOf(before))
}

// misleading are names that people give, and that look like causes.
func misleading() []string {
	return []string{
		"quota", "401", "error", "denied", "in-use", "got-401-instead", "rate-limited", "timeout",
		"quota-exceeded", "forbidden", "not-found", "http-500", "eof", "refused", "got 401 instead",
		`: rpc error: code = Internal desc = x`, `: {"overLimit": {}}`, " failed: EOF",
	}
}

// nameOf makes a name of Kubernetes from a text.
func nameOf(word string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, word)
	return cmp.Or(strings.Trim(name[:min(len(name), 63)], "-."), "quota")
}

// quotable returns a text without what cannot be in a name even if it is quoted.
func quotable(word string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, word[:min(len(word), 200)])
}

// shape is what must not depend on names.
type shape struct {
	Reporter                                fault.Component
	Operation, Code                         string
	Leaf                                    fault.Leaf
	Status                                  int
	Method, Service, Resource, Kind, Answer string
	Nouns                                   []string
	Exit                                    string
	Reasons                                 int
}

func shapeOf(f fault.Fault) shape {
	s := shape{Reporter: f.Reporter, Operation: f.Operation, Code: f.Code, Leaf: f.Leaf}
	for noun := range f.Names {
		s.Nouns = append(s.Nouns, string(noun))
	}
	slices.Sort(s.Nouns)
	if a := f.Answer; a != nil {
		s.Status, s.Method, s.Service = a.Status, a.Method, a.Service
		s.Resource, s.Kind = a.Resource, a.Kind
	}
	if f.Command != nil {
		s.Exit = f.Command.Exit
	}
	if f.Scheduling != nil {
		s.Reasons = len(f.Scheduling.Reasons)
	}
	return s
}
