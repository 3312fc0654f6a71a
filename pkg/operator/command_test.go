package operator

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
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
		if !strings.Contains(out, "--"+f.Name+" ") || !strings.Contains(out, f.Usage) {
			t.Errorf("no --%s with its usage in:\n%s", f.Name, out)
		}
	})
}

func TestInvalidCommandLineIsRejected(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"argument": {
			[]string{"start", "now"}, `unknown command "now" for "manila-csi-driver-operator start"`,
		},
		"command": {[]string{"stop"}, `unknown command "stop" for "manila-csi-driver-operator"`},
		"flag":    {[]string{"start", "--nonsense"}, "unknown flag: --nonsense"},
		"value": {
			[]string{"start", "--poll-interval=often"}, `invalid argument "often" for "--poll-interval"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := execute(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestCheckCloudsReadsTheFileAsTheOperatorDoes(t *testing.T) {
	t.Parallel()
	const good = "clouds: {openstack: {auth: {auth_url: 'https://k:5000/v3', username: u, " +
		"password: p, project_name: x, user_domain_name: d, project_domain_name: d}}}"
	for name, tt := range map[string]struct{ text, want string }{
		"good":            {good, ""},
		"empty":           {"", "clouds.yaml"},
		"random":          {"\x00\x01\xff{", "clouds.yaml"},
		"another entry":   {"clouds: {a: {}, b: {}}", "openstack"},
		"a field missing": {strings.ReplaceAll(good, "password: p,", ""), "password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "clouds.yaml")
			assert.NilError(t, os.WriteFile(file, []byte(tt.text), 0o600))
			_, err := execute(t, "check-clouds", file)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// Another operator of the same driver uses the same Lease.
func TestLeaseAndEventsAreNamedAfterTheComponent(t *testing.T) {
	t.Parallel()
	drivers := plugins()
	for component, want := range map[string]string{
		"":                                     "test-operator",
		"openstack-manila-csi-driver-operator": "openstack-manila-csi-driver-operator",
	} {
		drivers[0].Component = component
		o := newTestOperator(t, flavour.Standalone, drivers...)
		if got := o.hostOptions(&rest.Config{}, &rest.Config{}); got.Name != want ||
			got.Namespace != "operators" {
			t.Errorf(
				"component %q: the operator leads as %s/%s, want operators/%s", component, got.Namespace,
				got.Name, want,
			)
		}
	}
}

func TestVersionFlagPrintsTheVersion(t *testing.T) {
	t.Parallel()
	out, err := execute(t, "--version")
	assert.Check(t, err == nil && strings.HasPrefix(out, "manila-csi-driver-operator version "),
		"got %q, %v", out, err)
}
