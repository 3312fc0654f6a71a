//go:build e2e

package storage

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/e2e/report"
)

// spec is a test of the suite and its result.
type spec struct {
	name, state, message string
}

// readReport returns the tests in a report of ginkgo whose names match.
func readReport(t *testing.T, file string, names *regexp.Regexp) []spec {
	t.Helper()
	entries, err := report.Read(file)
	assert.NilError(t, err)
	var specs []spec
	for _, e := range entries {
		if e.Kind == report.Test && names.MatchString(e.Name) {
			specs = append(specs, spec{e.Name, e.State, e.Message})
		}
	}
	assert.Check(t, len(specs) != 0, "no test has a name that matches %s", names)
	return specs
}

// reason is why tests do not run.
type reason struct {
	// Pattern is a regular expression. It matches the names of tests, or the messages with which tests
	// skip themselves.
	Pattern string `json:"pattern"`
	// Drivers are the drivers to which it applies; all if it is empty.
	Drivers []string `json:"drivers"`
	// Without is a capability of Linux. The reason applies only where root does not have it.
	Without string `json:"without"`
	Reason  string `json:"reason"`

	unneeded bool // this process has the capability
}

func (r reason) appliesTo(driver string) bool {
	return (len(r.Drivers) == 0 || slices.Contains(r.Drivers, driver)) && !r.unneeded
}

// skipped are the reasons for which tests do not run.
type skipped struct {
	// Tests are reasons not to start tests. Messages are reasons to accept that tests skip themselves.
	Tests    []reason `json:"tests"`
	Messages []reason `json:"messages"`
}

func readSkipped(t *testing.T) skipped {
	t.Helper()
	content, err := os.ReadFile("skipped.yaml")
	assert.NilError(t, err)
	var s skipped
	assert.NilError(t, yaml.UnmarshalStrict(content, &s), "reading skipped.yaml")
	for i, r := range s.Tests {
		if r.Without != "" {
			s.Tests[i].unneeded = hasCapability(t, r.Without)
		}
	}
	return s
}

// hasCapability returns whether this process has a capability of Linux.
func hasCapability(t *testing.T, name string) bool {
	t.Helper()
	number, known := map[string]int{"SYS_RESOURCE": unix.CAP_SYS_RESOURCE}[name]
	assert.Assert(t, known, "skipped.yaml names the unknown capability %s", name)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // for capabilities 0 to 31 and 32 to 63
	assert.NilError(t, unix.Capget(&header, &data[0]), "reading capabilities")
	return data[number/32].Effective&(1<<(number%32)) != 0
}

// patterns returns the patterns of the tests of a driver that do not start.
func (s skipped) patterns(driver string) []string {
	var patterns []string
	for _, r := range s.Tests {
		if r.appliesTo(driver) {
			patterns = append(patterns, r.Pattern)
		}
	}
	return patterns
}

// check fails if a test did not run without a reason in the list, or if a reason is outdated, as
// it matches nothing. It logs how many tests passed, failed and did not run.
func (s skipped) check(t *testing.T, driver string, specs []spec) {
	t.Helper()
	count := map[string]int{}
	var reports []string
	matched := map[string]bool{}
	match := func(reasons []reason, text string) {
		for _, r := range reasons {
			if r.appliesTo(driver) && regexp.MustCompile(r.Pattern).MatchString(text) {
				matched[r.Pattern] = true
				return
			}
		}
		reports = append(reports, text)
	}
	for _, spec := range specs {
		count[spec.state]++
		switch {
		case spec.state == "skipped" && spec.message == "":
			match(s.Tests, spec.name)
		case spec.state == "skipped":
			match(s.Messages, spec.message)
		case spec.state != "passed":
			t.Errorf("%s: %s: %s", spec.state, spec.name, spec.message)
		}
	}
	for _, report := range slices.Compact(slices.Sorted(slices.Values(reports))) {
		t.Errorf("tests did not run, and skipped.yaml contains no reason: %s", report)
	}
	for _, r := range slices.Concat(s.Tests, s.Messages) {
		assert.Check(t, !r.appliesTo(driver) || matched[r.Pattern],
			"no test was skipped because of %q in skipped.yaml: remove it", r.Pattern)
	}
	t.Logf("%s: %d passed, %d failed, %d skipped", driver, count["passed"],
		len(specs)-count["passed"]-count["skipped"], count["skipped"])
}
