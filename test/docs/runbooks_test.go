package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// alertRule is a rule of a PrometheusRule.
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
	if err := yaml.Unmarshal([]byte(text), &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest.Spec.Groups[0].Rules
}

// Alerts and findings link to headings of the page.
func TestEachAlertHasARunbook(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, rule := range alertRules(t) {
		want = append(want, rule.Alert)
		_, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "/docs/runbooks.md#")
		if anchor != strings.ToLower(rule.Alert) {
			t.Errorf("the anchor of %s is %q", rule.Alert, anchor)
		}
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
		if diff != "" {
			t.Errorf("parts of %s (-want +got):\n%s", heading, diff)
		}
	}
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("headings (-alerts +page):\n%s", diff)
	}
}

func TestEachFindingHasARunbook(t *testing.T) {
	t.Parallel()
	var alerts []string
	for _, rule := range alertRules(t) {
		alerts = append(alerts, strings.ToLower(rule.Alert))
	}
	files, err := filepath.Glob("../../pkg/kubectl/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../pkg/diagnosis/diagnosis.go") {
		for _, runbook := range regexp.MustCompile(`"(openstackcsi[a-z]*)"`).
			FindAllStringSubmatch(read(t, strings.TrimPrefix(file, "../../")), -1) {
			if !slices.Contains(alerts, runbook[1]) {
				t.Errorf("%s: %s is no alert", file, runbook[1])
			}
		}
	}
}
