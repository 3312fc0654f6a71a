package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/yaml"
)

type alertRule struct {
	Alert, Expr string
	Annotations map[string]string
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	var manifest struct {
		Spec struct {
			Groups []struct{ Rules []alertRule }
		}
	}
	text := read(t, "assets/monitoring/kubernetes/alerts.yaml")
	assert.NilError(t, yaml.Unmarshal([]byte(text), &manifest))
	return manifest.Spec.Groups[0].Rules
}

// Alerts and findings link to headings of the page.
func TestEachAlertHasARunbook(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, rule := range alertRules(t) {
		want = append(want, rule.Alert)
		_, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "/docs/runbooks.md#")
		assert.Check(t, anchor == strings.ToLower(rule.Alert),
			"the anchor of %s is %q", rule.Alert, anchor)
	}
	sections := strings.Split(read(t, "docs/runbooks.md"), "\n## ")
	for _, section := range sections[1:] {
		heading, rest, _ := strings.Cut(section, "\n")
		if !strings.HasPrefix(heading, "OpenStackCSI") {
			continue
		}
		got = append(got, heading)
		var parts []string
		for _, part := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(rest, -1) {
			parts = append(parts, part[1])
		}
		diff := cmp.Diff([]string{"Meaning", "Impact", "Diagnosis", "Mitigation"}, parts)
		assert.Check(t, diff == "", "parts of %s (-want +got):\n%s", heading, diff)
	}
	assert.Check(t, is.DeepEqual(slices.Compact(want), got), "headings")
}

func TestEachFindingHasARunbook(t *testing.T) {
	t.Parallel()
	var alerts []string
	for _, rule := range alertRules(t) {
		alerts = append(alerts, strings.ToLower(rule.Alert))
	}
	files, err := filepath.Glob("../../pkg/kubectl/*.go")
	assert.NilError(t, err)
	for _, file := range append(files, "../../pkg/diagnosis/diagnosis.go") {
		for _, runbook := range regexp.MustCompile(`"(openstackcsi[a-z]*)"`).
			FindAllStringSubmatch(read(t, strings.TrimPrefix(file, "../../")), -1) {
			if !slices.Contains(alerts, runbook[1]) {
				t.Errorf("%s: %s is no alert", file, runbook[1])
			}
		}
	}
}
