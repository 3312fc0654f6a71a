package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

func load(t *testing.T, args ...string) (*Settings, error) {
	t.Helper()
	var flags Flags
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.AddTo(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags.Load()
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s, err := load(t, "--namespace=csi-addons-system", "--driver-namespaces=a=b")
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		ReclaimSpaceTimeout: 3 * time.Minute, MaxConcurrent: 100, NodeRetryDelay: 5 * time.Second,
		Precedence: ClaimFirst, MinInterval: time.Minute, StaggerWindow: 2 * time.Hour,
	}
	if diff := cmp.Diff(want, s.Options); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if s.ServiceAccount == s.UnverifiedAccount {
		t.Error("tokens for sidecars that are not verified belong to the controller")
	}
}

// A tenant may be able to create a namespace with any name, so no name is trusted by default.
func TestNoNamespaceIsTrustedByDefault(t *testing.T) {
	t.Parallel()
	_, err := load(t, "--namespace=csi-addons-system")
	if err == nil || !strings.Contains(err.Error(), "flag --driver-namespaces is missing") {
		t.Errorf("without namespaces of drivers, the flags are accepted: %v", err)
	}
}

func TestDriversHaveNamespacesAndSecurity(t *testing.T) {
	t.Parallel()
	s, err := load(t, "--namespace=n", "--driver-namespaces=a=one,b=two", "--driver-namespaces=a=two",
		"--insecure-drivers=a", "--plaintext-drivers=b")
	if err != nil {
		t.Fatal(err)
	}
	want := connection.Drivers{
		"a": {Namespaces: []string{"one", "two"}, Security: connection.Unverified},
		"b": {Namespaces: []string{"two"}, Security: connection.Plaintext},
	}
	if diff := cmp.Diff(want, s.Drivers); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one", "two"}, s.Drivers.Namespaces()); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

func TestOneErrorNamesAllFaults(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		args, want []string
	}{
		{
			[]string{
				"--max-concurrent-per-driver=0", "--max-concurrent-reconciles=0",
				"--schedule-precedence=x", "--other-controller-namespaces=A",
				"--driver-namespaces=a", "--reclaim-space-timeout=0s", "--cronjob-stagger-window=-1",
				"--csi-addons-node-retry-delay=0", "--leader-election-renew-deadline=15s",
				"--unverified-service-account=csi-addons-controller-manager",
			},
			[]string{
				"--unverified-service-account",
				"--namespace is missing", "--max-concurrent-per-driver", "max-concurrent-reconciles",
				"--schedule-precedence", "--other-controller-namespaces", "--driver-namespaces",
				"reclaim-space-timeout", "cronjob-stagger-window", "csi-addons-node-retry-delay",
				"--leader-election-*",
			},
		},
		{[]string{"--driver-namespaces="}, []string{"--driver-namespaces is missing"}},
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
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not contain %q: %v", want, err)
			}
		}
	}
}

func TestConfigMapReplacesOptionsOfFlags(t *testing.T) {
	t.Parallel()
	base := Options{
		ReclaimSpaceTimeout: time.Minute, MaxConcurrent: 1, NodeRetryDelay: time.Second,
		Precedence: ClaimFirst,
	}
	got, warnings := base.with(map[string]string{
		"reclaim-space-timeout": "5m", "max-concurrent-reconciles": "7",
		"csi-addons-node-retry-delay": "9", "schedule-precedence": "sc-only",
		"cronjob-stagger-window": "3", "max-group-pvcs": "100",
	})
	if len(warnings) > 0 {
		t.Errorf("warnings: %v", warnings)
	}
	want := Options{
		ReclaimSpaceTimeout: 5 * time.Minute, MaxConcurrent: 7, NodeRetryDelay: 9 * time.Second,
		Precedence: ClassOnly, StaggerWindow: 3 * time.Hour,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestConfigMapWarnsOfUnknownKeysAndInvalidValues(t *testing.T) {
	t.Parallel()
	base := Options{
		ReclaimSpaceTimeout: time.Minute, MaxConcurrent: 1, NodeRetryDelay: time.Second,
		Precedence: ClaimFirst,
	}
	got, warnings := base.with(map[string]string{
		"colour": "blue", "reclaim-space-timeout": "-1s", "max-concurrent-reconciles": "many",
		"csi-addons-node-retry-delay": "9999999999", "cronjob-stagger-window": "4",
	})
	if len(warnings) != 4 {
		t.Errorf("warnings: %q, want four", warnings)
	}
	base.StaggerWindow = 4 * time.Hour
	if diff := cmp.Diff(base, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}
