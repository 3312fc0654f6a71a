package docs_test

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/test/golden"
)

const conditionsPage = "docs/conditions.md"

// The flag -update writes the tables: all of the first one, and the reasons of the others, whose
// second column says what the code cannot know. A new reason gets an empty one, which fails.
func TestTextsOfTheTablesOfConditionsAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	page := read(t, conditionsPage)
	want := replaceTable(t, page, "## All conditions", func([]string) []string { return rules() })
	pods := diagnosis.PodReasons()
	of := func(reasons []string) func([]string) []string {
		return func(rows []string) []string { return withReasons(rows, reasons) }
	}
	want = replaceTable(t, want, "### Reasons of pods", of(pods))
	others := slices.DeleteFunc(reasons(t), func(r string) bool { return slices.Contains(pods, r) })
	want = replaceTable(t, want, "### Reasons", of(others))
	golden.Match(t, filepath.Join(root, conditionsPage), want)
	assert.Check(t, !strings.Contains(want, "|  |"),
		"%s does not say what a reason means", conditionsPage)
}

// replaceTable replaces the rows of the table below a heading.
func replaceTable(
	t *testing.T, page, heading string, replaced func(rows []string) []string,
) string {
	t.Helper()
	before, section, found := strings.Cut(page, "\n"+heading+"\n")
	top, table, _ := strings.Cut(section, "|--|\n")
	rows, after, ended := strings.Cut(table, "\n\n")
	assert.Assert(t, found && ended && !strings.Contains(top, "\n#"),
		"%s has no table below %q", conditionsPage, heading)
	rows = strings.Join(replaced(strings.Split(rows, "\n")), "\n")
	return before + "\n" + heading + "\n" + top + "|--|\n" + rows + "\n\n" + after
}

func rules() (rows []string) {
	for _, r := range diagnosis.Rules() {
		suffix, expected := "`..."+r.Suffix+"`", "`"+string(r.Expected)+"`"
		if r.Suffix == "" {
			suffix = "any other"
		}
		if r.Expected == "" {
			expected = "absent"
		}
		otherwise := strings.ToLower(string(r.Severity))
		if r.Runbook != "" {
			otherwise = fmt.Sprintf("[%s](runbooks.md#%s)", otherwise, r.Runbook)
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", suffix, expected, otherwise))
	}
	return rows
}

// withReasons returns the rows of reasons, with what they contain already, in the same order.
func withReasons(rows, reasons []string) (kept []string) {
	for _, row := range rows {
		reason := strings.Split(row, "`")
		if i := slices.Index(reasons, reason[min(1, len(reason)-1)]); i >= 0 {
			kept = append(kept, row)
			reasons = slices.Concat(reasons[:i], reasons[i+1:])
		}
	}
	for _, reason := range reasons {
		kept = append(kept, "| `"+reason+"` |  |")
	}
	return kept
}

// reasons returns the reasons that the operators give to conditions: the words that pkg assigns to
// something named reason, or of the type Reason, and those of spec.managementState.
func reasons(t *testing.T) []string {
	t.Helper()
	all := []string{string(opv1.Unmanaged), string(opv1.Removed)}
	ofReason := regexp.MustCompile(`^([rR]eason\w*|WithReason)$`)
	add := func(name string, value ast.Expr) {
		literal, ok := value.(*ast.BasicLit)
		if ok && ofReason.MatchString(name) && len(literal.Value) > len(`""`) {
			all = append(all, strings.Trim(literal.Value, `"`))
		}
	}
	others := regexp.MustCompile(`^pkg/(csiaddons|kubectl|storageclass)\b`)
	inspect(t, func(folder string, node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ValueSpec:
			for i, value := range n.Values {
				add(n.Names[i].Name, value)
				add(nameOf(n.Type), value)
			}
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				add(nameOf(n.Lhs[i]), value)
			}
		case *ast.KeyValueExpr:
			add(nameOf(n.Key), n.Value)
		case *ast.CallExpr:
			switch name := nameOf(n.Fun); {
			case name == "NewCondition":
				add("reason", n.Args[2])
			case len(n.Args) == 1:
				add(name, n.Args[0])
			}
		}
		return !others.MatchString(folder)
	})
	slices.Sort(all)
	// Only the adapter of CSI-Addons gets these errors of OpenStack.
	ofShares := []string{"NotFound", "Conflict", "Refused"}
	return slices.DeleteFunc(slices.Compact(all), func(reason string) bool {
		return slices.Contains(ofShares, reason)
	})
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
