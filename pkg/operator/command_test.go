package operator

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/client-go/rest"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

// execute runs the command with arguments and returns what it wrote.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	both := plugins()
	cmd := NewCommand(t.Context(), "manila-csi-driver-operator", both[0], both[1:]...)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestHelpListsAllFlags(t *testing.T) {
	t.Parallel()
	out, err := execute(t, "start", "--help")
	assert.NilError(t, err)
	var flags settings.Flags
	set := pflag.NewFlagSet("all", pflag.ContinueOnError)
	flags.AddTo(set)
	assert.Assert(t, set.HasFlags(), "no flags to look for")
	set.VisitAll(func(f *pflag.Flag) {
		assert.Check(t, strings.Contains(out, "--"+f.Name+" ") && strings.Contains(out, f.Usage),
			"no --%s with its usage in:\n%s", f.Name, out)
	})
}

func TestCommandLineIsChecked(t *testing.T) {
	t.Parallel()
	const login = "clouds: {openstack: {auth: {auth_url: 'https://k:5000/v3', username: u, " +
		"project_name: x, user_domain_name: d, project_domain_name: d%s}}}"
	folder := t.TempDir()
	good, bad := filepath.Join(folder, "good"), filepath.Join(folder, "bad")
	assert.NilError(t, os.WriteFile(good, fmt.Appendf(nil, login, ", password: p"), 0o600))
	assert.NilError(t, os.WriteFile(bad, fmt.Appendf(nil, login, ""), 0o600))
	for want, args := range map[string][]string{
		`"now" for "manila-csi-driver-operator start"`: {"start", "now"},
		`argument "often" for "--poll-interval"`:       {"start", "--poll-interval=often"},
		"password":                                     {"check-clouds", bad},
		"reading the clouds.yaml":                      {"check-clouds", "missing.yaml"},
	} {
		_, err := execute(t, args...)
		assert.Check(t, is.ErrorContains(err, want), "%q", args)
	}
	_, err := execute(t, "check-clouds", good)
	assert.Check(t, err, "a complete clouds.yaml")
	out, err := execute(t, "--version")
	assert.Check(t, err == nil && strings.HasPrefix(out, "manila-csi-driver-operator version "),
		"got %q, %v", out, err)
}

// Another operator of the same driver uses the same Lease.
func TestLeaseAndEventsAreNamedAfterTheComponent(t *testing.T) {
	t.Parallel()
	drivers := plugins()
	for component, want := range map[string]string{"": "test-operator", "another": "another"} {
		drivers[0].Component = component
		o := newTestOperator(t, flavour.Standalone, drivers...)
		got := o.hostOptions(&rest.Config{}, &rest.Config{})
		assert.Check(t, is.Equal(got.Namespace+"/"+got.Name, "operators/"+want))
	}
}
