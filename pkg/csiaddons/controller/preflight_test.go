package controller

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// newPreflight returns the checks of a controller in the namespace "own" with drivers in the
// namespaces "a" and "b". The function list returns the error of a list in a namespace.
func newPreflight(t *testing.T, list func(namespace string) error, objects ...client.Object,
) *preflight {
	t.Helper()
	known, err := newScheme()
	assert.NilError(t, err)
	openShift := schema.GroupVersion{Group: "config.openshift.io", Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion(), openShift})
	mapper.Add(openShift.WithKind("ClusterVersion"), meta.RESTScopeRoot)
	for kind := range known.KnownTypes(v1alpha1.GroupVersion()) {
		mapper.Add(v1alpha1.GroupVersion().WithKind(kind), meta.RESTScopeNamespace)
	}
	return &preflight{
		settings: &Settings{Namespace: "own", Drivers: connection.Drivers{
			"cinder": {Namespaces: []string{"a"}}, "manila": {Namespaces: []string{"b"}},
		}},
		client: fake.NewClientBuilder().WithScheme(known).WithRESTMapper(mapper).WithObjects(objects...).
			WithInterceptorFuncs(interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch,
				_ client.ObjectList, options ...client.ListOption,
			) error {
				var all client.ListOptions
				all.ApplyOptions(options)
				return list(all.Namespace)
			}}).Build(),
		schemas: func(schema.GroupVersion) (map[string]any, error) {
			return nil, errors.New("connection refused")
		},
	}
}

func leaseOf(namespace, holder string, seconds int32, renewed time.Duration) client.Object {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To(seconds),
			RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-renewed))),
		},
	}
}

func deployment(namespace string, replicas int32) client.Object {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: DeploymentName},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
}

// Two controllers would execute each operation twice. A namespace of a tenant does not count.
func TestOtherControllerPreventsTheStart(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		object client.Object
		want   string // "" means that the controller starts
	}{
		"its own Deployment":             {deployment("own", 1), ""},
		"a Deployment of a tenant":       {deployment("tenant", 1), ""},
		"a Deployment without replicas":  {deployment(storageNamespace, 0), ""},
		"a Deployment":                   {deployment(storageNamespace, 1), DeploymentName},
		"a Lease":                        {leaseOf("own", "odf", 15, time.Minute/4), "own/" + LeaseName},
		"a Lease for a long time":        {leaseOf("own", "odf", 300, 5*time.Minute), "own/" + LeaseName},
		"a released Lease":               {leaseOf("own", "", 15, 0), ""},
		"an old Lease":                   {leaseOf("own", "odf", 15, time.Minute), ""},
		"an old Lease without an end":    {leaseOf("own", "odf", 1<<30, time.Hour), ""},
		"a Lease of OpenShift's storage": {leaseOf(storageNamespace, "odf", 15, 0), LeaseName},
	} {
		p := newPreflight(t, func(string) error { return nil }, one.object)
		err := p.check(t.Context())
		if one.want == "" {
			assert.Check(t, err, name)
		} else {
			assert.Check(t, is.ErrorContains(err, one.want), name)
		}
	}
}

// The clock of its holder was ahead by a year, or somebody wrote the time by hand.
func TestLeaseFromTheFutureCountsFromItsLastWrite(t *testing.T) {
	t.Parallel()
	for written, want := range map[time.Duration]bool{time.Minute / 4: true, time.Minute: false} {
		lease := leaseOf("own", "odf", 15, -365*24*time.Hour).(*coordinationv1.Lease)
		for _, age := range []time.Duration{time.Hour, written, time.Hour} { // of each writer
			lease.ManagedFields = append(lease.ManagedFields, metav1.ManagedFieldsEntry{
				Time: ptr.To(metav1.NewTime(time.Now().Add(-age))),
			})
		}
		assert.Check(t, is.Equal(held(lease), want), "%v after its last write", written)
	}
}

func TestControllerEndsWithTheCauseAfterAMinute(t *testing.T) {
	t.Parallel()
	allowed := newPreflight(t, func(string) error { return forbidden() })
	for want, kube := range map[string]client.Client{
		"the cluster has no kinds": fake.NewFakeClient(), "csi-addons-driver-role": allowed.client,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &preflight{settings: allowed.settings, client: kube}
			start := time.Now()
			err := p.await(t.Context())
			assert.Check(t, is.ErrorContains(err, want))
			assert.Check(t, time.Since(start) <= preflightTimeout, "it ends after %v", time.Since(start))
		})
	}
}

// The process ends when another controller appears, or when it may serve another namespace, and
// survives an outage of the API server.
func TestRunningControllerEndsWhenItMustRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := newPreflight(t, func(namespace string) error {
			switch passed := time.Since(start); {
			case namespace == "b" && passed < 5*time.Minute:
				return forbidden()
			case passed > time.Minute && passed < 10*time.Minute:
				return errors.New("connection refused")
			}
			return nil
		})
		assert.NilError(t, p.await(t.Context()))
		got := [][]string{p.served, p.forbidden()}
		assert.Check(t, is.DeepEqual([][]string{{"a"}, {"b"}}, got), "served and forbidden namespaces")
		err := p.Start(t.Context())
		assert.Check(t, is.ErrorContains(err, "it may read namespace b"))
		passed := time.Since(start).Truncate(time.Minute)
		assert.Check(t, is.Equal(passed, 10*time.Minute), "the controller ends after")
		other := deployment(storageNamespace, 1)
		assert.NilError(t, p.client.Create(t.Context(), other))
		assert.Check(t, is.ErrorIs(p.Start(t.Context()), errOther), "beside another controller")
	})
}

// Clusters keep the CRDs of earlier releases of the CSI-Addons for Ceph.
func TestEventNamesMissingFields(t *testing.T) {
	t.Parallel()
	const lack = "Warning MissingFields CustomResourceDefinitions of another program lack the fields: "
	const class = "NetworkFence spec.networkFenceClassName"
	own := "../../../assets/csi-addons/crd/generated/csiaddons.openshift.io_"
	for name, test := range map[string]struct{ files, want []string }{
		"v0.8.0": {[]string{"testdata/crds-v0.8.0.yaml"}, []string{
			lack + "CSIAddonsNode status.capabilities, CSIAddonsNode " +
				"status.networkFenceClientStatus, " + class,
		}},
		"v0.12.0": {[]string{"testdata/crds-v0.12.0.yaml"}, []string{lack + class}},
		"ours":    {[]string{own + "csiaddonsnodes.yaml", own + "networkfences.yaml"}, nil},
	} {
		p := newPreflight(t, func(string) error { return nil }, deployment("own", 1))
		recorder := events.NewFakeRecorder(len(test.want) + 1)
		p.events = recorder
		p.schemas = func(schema.GroupVersion) (map[string]any, error) {
			return published(t, test.files...), nil
		}
		for range 2 { // events are sent once
			assert.NilError(t, p.report(t.Context()))
		}
		close(recorder.Events)
		var got []string
		for event := range recorder.Events {
			got = append(got, event)
		}
		assert.Check(t, is.DeepEqual(test.want, got), "events with the CRDs of %s", name)
	}
}

// published returns what the API server publishes about the CRDs in files.
func published(t *testing.T, files ...string) map[string]any {
	t.Helper()
	schemas := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		assert.NilError(t, err)
		for _, one := range strings.Split(string(text), "\n---\n") {
			crd := &unstructured.Unstructured{}
			assert.NilError(t, yaml.Unmarshal([]byte(one), &crd.Object))
			kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
			versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
			found, _, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema",
				"openAPIV3Schema")
			schemas["io.openshift.csiaddons.v1alpha1."+kind] = found
		}
	}
	return map[string]any{"components": map[string]any{"schemas": schemas}}
}

func load(t *testing.T, args ...string) (*Settings, error) {
	t.Helper()
	var flags Flags
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.AddTo(set)
	assert.NilError(t, set.Parse(args))
	return flags.Load()
}

func TestFlagsNameDriversWithNamespacesAndSecurity(t *testing.T) {
	t.Parallel()
	s, err := load(t, "--namespace=n", "--driver-namespaces=a=one,b=two", "--driver-namespaces=a=two",
		"--insecure-drivers=a", "--plaintext-drivers=b")
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual(connection.Drivers{
		"a": {Namespaces: []string{"one", "two"}, Security: connection.Unverified},
		"b": {Namespaces: []string{"two"}, Security: connection.Plaintext},
	}, s.Drivers), "drivers")
	assert.Check(t, is.DeepEqual(Options{
		ReclaimSpaceTimeout: 3 * time.Minute, MaxConcurrent: 100, NodeRetryDelay: 5, Precedence: "pvc",
		MinInterval: time.Minute, StaggerWindow: 2,
	}, s.Options), "default options")
}

// A tenant may be able to create a namespace with any name, so no name is trusted by default.
func TestOneErrorNamesAllFaults(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--namespace is missing": {
			"--max-concurrent-per-driver=0", "--max-concurrent-reconciles=0", "--schedule-precedence=x",
			"--driver-namespaces=a", "--reclaim-space-timeout=0s", "--cronjob-stagger-window=-1",
			"--csi-addons-node-retry-delay=0",
			"--unverified-service-account=csi-addons-controller-manager",
		},
		"--driver-namespaces is missing": nil,
		`"example.com" must be in`:       {"--driver-namespaces=a=b", "--insecure-drivers=example.com"},
	} {
		_, err := load(t, args...)
		assert.Check(t, is.ErrorContains(err, want))
		for _, arg := range args {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			assert.Check(t, is.ErrorContains(err, name))
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
	assert.Check(t, is.DeepEqual(want, got), "options")
	assert.Check(t, len(warnings) == 0 && got.classOnly(), "warnings %q", warnings)
	got, warnings = want.with(map[string]string{
		"colour": "blue", "reclaim-space-timeout": "never", "max-concurrent-reconciles": "0",
		"csi-addons-node-retry-delay": "9999999999", "schedule-precedence": "x",
	})
	assert.Check(t, is.DeepEqual(want, got), "options")
	assert.Check(t, is.Len(warnings, 5))
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
		assert.Check(t, is.Equal(ended, one.ends), "%s: the controller ends", name)
		assert.Check(t, is.Equal(len(recorder.Events) == 1, one.warned), "%s: it warns", name)
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
		_, err := shrink(one.object)
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(one.want, one.object), "%T in the cache", one.object)
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "a"}
	got, err := shrink(gone)
	assert.Check(t, err == nil && got == any(gone), "a last state that is unknown: %v, %v", got, err)
}
