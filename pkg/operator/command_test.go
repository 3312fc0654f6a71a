package operator

import (
	"bytes"
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
	for want, args := range map[string][]string{
		`"now" for "manila-csi-driver-operator start"`: {"start", "now"},
		`argument "often" for "--poll-interval"`:       {"start", "--poll-interval=often"},
		"NFS_DRIVER_IMAGE is missing":                  {"start", "--namespace=n"},
	} {
		out, err := execute(t, args...)
		assert.Check(t, is.ErrorContains(err, want), "%q", args)
		assert.Check(t, !strings.Contains(out, "Usage:"), "more than an error: %s", out)
	}
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
