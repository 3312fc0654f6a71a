package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
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

func someOptions() Options {
	return Options{ReclaimSpaceTimeout: time.Minute, MaxConcurrent: 1, NodeRetryDelay: 1}
}

func TestConfigMapReplacesOptionsOfFlags(t *testing.T) {
	t.Parallel()
	got, warnings := someOptions().with(map[string]string{
		"reclaim-space-timeout": "5m", "csi-addons-node-retry-delay": "9",
		"schedule-precedence": "sc-only", "cronjob-stagger-window": "3", "min-schedule-interval": "1h",
		"max-group-pvcs": "100",
	})
	want := Options{
		ReclaimSpaceTimeout: 5 * time.Minute, MaxConcurrent: 1, NodeRetryDelay: 9,
		Precedence: "sc-only", MinInterval: time.Hour, StaggerWindow: 3,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(warnings) > 0 || !got.classOnly() {
		t.Errorf("options with the warnings %v (-want +got):\n%s", warnings, diff)
	}
	got, warnings = want.with(map[string]string{
		"colour": "blue", "reclaim-space-timeout": "never", "max-concurrent-reconciles": "0",
		"csi-addons-node-retry-delay": "9999999999", "schedule-precedence": "x",
	})
	if diff := cmp.Diff(want, got); diff != "" || len(warnings) != 5 {
		t.Errorf("options with the warnings %q (-want +got):\n%s", warnings, diff)
	}
}

// A ConfigMap that is invalid must not end the controller: it would end again and again.
func TestOnlyOtherValidOptionsEndTheController(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		data         map[string]string
		ends, warned bool
	}{
		"no data":             {nil, false, false},
		"the same":            {map[string]string{"reclaim-space-timeout": "60s"}, false, false},
		"another":             {map[string]string{"reclaim-space-timeout": "2m"}, true, false},
		"another and invalid": {map[string]string{"reclaim-space-timeout": "2m", "a": "b"}, false, true},
	} {
		p := newPreflight(t, func(string) error { return nil })
		ended, recorder := false, events.NewFakeRecorder(2)
		p.events, p.restart = recorder, func() { ended = true }
		p.settings.Options = someOptions()
		assert.NilError(t, p.await(t.Context()))
		assert.NilError(t, p.client.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: ConfigMap}, Data: one.data,
		}))
		for range 2 { // an unchanged ConfigMap causes one event
			assert.NilError(t, p.checkOptions(t.Context()))
		}
		if warned := len(recorder.Events) == 1; ended != one.ends || warned != one.warned {
			t.Errorf("%s: the controller ends: %t, want %t; it warns: %t, want %t", name, ended, one.ends,
				warned, one.warned)
		}
	}
}

func TestCachesContainOnlyWhatTheControllerReads(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 20<<10)
	written := metav1.ObjectMeta{
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": "{}",
			"notcsiaddons.openshift.io/a":                      "b",
			v1alpha1.ReclaimSpaceScheduleAnnotation:            long,
			v1alpha1.StateAnnotation:                           v1alpha1.ManagedState,
		},
	}
	kept := metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.ReclaimSpaceScheduleAnnotation: long[:maxAnnotation],
		v1alpha1.StateAnnotation:                v1alpha1.ManagedState,
	}}
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	for _, one := range []struct{ object, want client.Object }{
		{&v1alpha1.NetworkFence{ObjectMeta: written}, &v1alpha1.NetworkFence{ObjectMeta: kept}},
		{
			&corev1.Node{Status: corev1.NodeStatus{
				Addresses: addresses, Images: []corev1.ContainerImage{{Names: []string{"a"}}},
			}},
			&corev1.Node{Status: corev1.NodeStatus{Addresses: addresses}},
		},
		{
			&corev1.Pod{
				Spec:   corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "b"}}},
				Status: corev1.PodStatus{PodIP: "10.0.0.2", Phase: corev1.PodRunning, HostIP: "10.0.0.1"},
			},
			&corev1.Pod{
				Spec:   corev1.PodSpec{NodeName: "a"},
				Status: corev1.PodStatus{PodIP: "10.0.0.2", Phase: corev1.PodRunning},
			},
		},
	} {
		if _, err := shrink(one.object); err != nil {
			t.Fatal(err)
		}
		assert.Check(t, is.DeepEqual(one.want, one.object), "%T in the cache", one.object)
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "a"}
	if got, err := shrink(gone); err != nil || got != any(gone) {
		t.Errorf("an object whose last state is unknown becomes %v: %v", got, err)
	}
}
