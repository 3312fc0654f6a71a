//go:build monitoring

package monitoring

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"
)

// rule is a rule of an alert, or one that records what a panel of the dashboard shows.
type rule struct {
	Alert, Record, Expr string
}

// writeRules writes the rules of the PrometheusRules and of the dashboard to a file for Prometheus,
// and returns them.
func writeRules(t *testing.T, file string) []rule {
	t.Helper()
	var rules []any
	for _, name := range []string{"kubernetes/alerts.yaml", "management/alerts.yaml"} {
		var manifest struct {
			Spec struct{ Groups []struct{ Rules []any } }
		}
		readAsset(t, name, &manifest)
		rules = append(rules, manifest.Spec.Groups[0].Rules...)
	}
	for i, expression := range panels(t) {
		rules = append(rules, map[string]any{
			"record": fmt.Sprintf("dashboard:expression:%d", i), "expr": expression,
		})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{
		map[string]any{"name": "openstack-csi", "rules": rules},
	}})
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
	var content struct{ Groups []struct{ Rules []rule } }
	must(t, yaml.Unmarshal(text, &content))
	return content.Groups[0].Rules
}

// panels returns the expressions of the dashboard.
func panels(t *testing.T) []string {
	t.Helper()
	var manifest struct{ Data map[string]string }
	readAsset(t, "kubernetes/generated/dashboard.yaml", &manifest)
	var model struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	must(t, yaml.Unmarshal([]byte(manifest.Data["openstack-csi.json"]), &model))
	var expressions []string
	for _, panel := range model.Panels {
		for _, query := range panel.Targets {
			expressions = append(expressions, query.Expr)
		}
	}
	return expressions
}

func readAsset(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../assets/monitoring", name))
	must(t, err)
	must(t, yaml.Unmarshal(text, into))
}

func must(t *testing.T, err error) {
	t.Helper()
	assert.NilError(t, err)
}

// ruleTest is a test of an alert in the format of promtool.
type ruleTest struct {
	Name     string `json:"name"`
	Interval string `json:"interval"` // by default one minute
	Series   []any  `json:"input_series"`
	Cases    []struct {
		Time   string `json:"eval_time"`
		Alert  string `json:"alertname"` // not in the file, which is about one alert
		Alerts []any  `json:"exp_alerts,omitempty"`
	} `json:"alert_rule_test"`
}

// TestEachAlertFiresStaysSilentAndResolves runs promtool.
func TestEachAlertFiresStaysSilentAndResolves(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	rules := writeRules(t, filepath.Join(folder, "rules.yaml"))
	runPromtool(t, "check", "rules", "--lint-fatal", filepath.Join(folder, "rules.yaml"))
	for _, r := range rules {
		if r.Alert == "" {
			continue
		}
		name := strings.ToLower(strings.TrimPrefix(r.Alert, "OpenStackCSI")) + ".yaml"
		text, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		var tests []ruleTest
		must(t, yaml.UnmarshalStrict(text, &tests))
		mustCoverAlert(t, r.Alert, tests)
		text, err = yaml.Marshal(map[string]any{
			"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m", "tests": tests,
		})
		must(t, err)
		file := filepath.Join(folder, name)
		must(t, os.WriteFile(file, text, 0o600))
		runPromtool(t, "test", "rules", file)
	}
}

// mustCoverAlert completes the tests of an alert. It checks that the alert ends after it has fired
// in one test, and that it never fires in another.
func mustCoverAlert(t *testing.T, alert string, tests []ruleTest) {
	t.Helper()
	resolves, silent := false, false
	for i, test := range tests {
		tests[i].Interval = cmp.Or(test.Interval, "1m")
		fired := false
		for i := range test.Cases {
			test.Cases[i].Alert = alert
			fires := len(test.Cases[i].Alerts) > 0
			resolves = resolves || fired && !fires
			fired = fired || fires
		}
		silent = silent || !fired
	}
	assert.Check(t, resolves && silent,
		"the tests of %s show that it resolves: %v, that it stays silent: %v", alert, resolves, silent)
}

func runPromtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "promtool", args...).
		CombinedOutput()
	assert.Check(t, err == nil, "promtool %s: %v\n%s", strings.Join(args, " "), err, out)
}
