package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

func load(t *testing.T, args ...string) (*Settings, error) {
	t.Helper()
	var flags Flags
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.AddTo(set)
	assert.NilError(t, set.Parse(args))
	return flags.Load()
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s, err := load(t, "--namespace=csi-addons-system", "--driver-namespaces=a=b")
	assert.NilError(t, err)
	want := Options{
		ReclaimSpaceTimeout: 3 * time.Minute, MaxConcurrent: 100, NodeRetryDelay: 5, Precedence: "pvc",
		MinInterval: time.Minute, StaggerWindow: 2,
	}
	assert.Check(t, is.DeepEqual(want, s.Options), "options")
}

func TestDriversHaveNamespacesAndSecurity(t *testing.T) {
	t.Parallel()
	s, err := load(t, "--namespace=n", "--driver-namespaces=a=one,b=two", "--driver-namespaces=a=two",
		"--insecure-drivers=a", "--plaintext-drivers=b")
	assert.NilError(t, err)
	want := connection.Drivers{
		"a": {Namespaces: []string{"one", "two"}, Security: connection.Unverified},
		"b": {Namespaces: []string{"two"}, Security: connection.Plaintext},
	}
	assert.Check(t, is.DeepEqual(want, s.Drivers), "drivers")
}

func TestOneErrorNamesAllFaults(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		args, want []string
	}{
		{
			[]string{
				"--max-concurrent-per-driver=0", "--max-concurrent-reconciles=0",
				"--schedule-precedence=x",
				"--driver-namespaces=a", "--reclaim-space-timeout=0s", "--cronjob-stagger-window=-1",
				"--csi-addons-node-retry-delay=0",
				"--unverified-service-account=csi-addons-controller-manager",
			},
			[]string{
				"--unverified-service-account",
				"--namespace is missing", "--max-concurrent-per-driver", "max-concurrent-reconciles",
				"schedule-precedence", "--driver-namespaces",
				"reclaim-space-timeout", "cronjob-stagger-window", "csi-addons-node-retry-delay",
			},
		},
		// A tenant may be able to create a namespace with any name, so no name is trusted by default.
		{nil, []string{"--driver-namespaces is missing"}},
		{
			[]string{"--driver-namespaces=a=b", "--insecure-drivers=example.com"},
			[]string{`"example.com" must be in`},
		},
	} {
		_, err := load(t, one.args...)
		if err == nil {
			t.Errorf("the flags %v are accepted", one.args)
			continue
		}
		for _, want := range one.want {
			assert.Check(t, strings.Contains(err.Error(), want),
				"the error does not contain %q: %v", want, err)
		}
	}
}
