package controller

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	openShift := schema.GroupVersionKind{
		Group: "config.openshift.io", Version: "v1", Kind: "ClusterVersion",
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{
		v1alpha1.GroupVersion(), openShift.GroupVersion(),
		{Group: replicationGroup, Version: "v1alpha1"},
	})
	mapper.Add(openShift, meta.RESTScopeRoot)
	replication := schema.GroupVersionKind{
		Group: replicationGroup, Version: "v1alpha1", Kind: "VolumeReplication",
	}
	mapper.Add(replication, meta.RESTScopeNamespace)
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
		switch {
		case one.want == "" && err != nil:
			t.Errorf("beside %s, the controller does not start: %v", name, err)
		case one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)):
			t.Errorf("beside %s, the check returns %v, want %s", name, err, one.want)
		}
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
			assert.Check(t, err != nil && strings.Contains(err.Error(), want),
				"the controller ends with %v, want %q", err, want)
			if waited := time.Since(start); waited > preflightTimeout {
				t.Errorf("the controller ends after %v", waited)
			}
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
		assert.Check(t, err != nil && strings.Contains(err.Error(), "it may read namespace b"),
			"the controller ends with %v", err)
		if passed := time.Since(start); passed < 10*time.Minute || passed > 11*time.Minute {
			t.Errorf("the controller ends after %v", passed)
		}
		other := deployment(storageNamespace, 1)
		assert.NilError(t, p.client.Create(t.Context(), other))
		if err := p.Start(t.Context()); !errors.Is(err, errOther) {
			t.Errorf("beside another controller, the controller ends with %v", err)
		}
	})
}

// A file or OLM may have replaced the controller of the CSI-Addons for Ceph without a question.
func TestFinalizersOfAnotherControllerPreventTheStart(t *testing.T) {
	t.Parallel()
	for finalizer, want := range map[string]string{
		replicationGroup: "VolumeReplication a/data has the finalizers", "example.com/backup": "",
	} {
		synctest.Test(t, func(t *testing.T) {
			left := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "a", Name: "data", Finalizers: []string{finalizer},
			}}
			p := newPreflight(t, func(string) error { return nil })
			p.client = interceptor.NewClient(p.client.(client.WithWatch), interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList,
					options ...client.ListOption,
				) error {
					found, ok := list.(*metav1.PartialObjectMetadataList)
					var all client.ListOptions
					all.ApplyOptions(options)
					switch {
					case !ok:
					case all.Continue == "": // the first page is empty
						found.Continue = "next"
					default:
						found.Continue, found.Items = "", []metav1.PartialObjectMetadata{*left}
					}
					return nil
				},
			})
			err := p.await(t.Context())
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("beside the finalizer %s, the controller ends with %v, want %q", finalizer, err, want)
			}
			p.settings.IgnoreFinalizers = true
			assert.Check(t, p.await(t.Context()), "with --ignore-finalizers, the controller ends with")
		})
	}
}

// Clusters keep the CRDs of earlier releases of the CSI-Addons for Ceph, and its kinds.
func TestEventsNameMissingFieldsAndOtherKinds(t *testing.T) {
	t.Parallel()
	const kinds = "Warning KindsNotProcessed This controller does not process the kinds: " +
		"VolumeReplication"
	const lack = "Warning MissingFields CustomResourceDefinitions of another program lack the fields: "
	const class = "NetworkFence spec.networkFenceClassName"
	own := "../../../assets/csi-addons/crd/generated/csiaddons.openshift.io_"
	for name, test := range map[string]struct{ files, want []string }{
		"v0.8.0": {[]string{"testdata/crds-v0.8.0.yaml"}, []string{
			kinds, lack + "CSIAddonsNode status.capabilities, CSIAddonsNode " +
				"status.networkFenceClientStatus, " + class,
		}},
		"v0.12.0": {[]string{"testdata/crds-v0.12.0.yaml"}, []string{kinds, lack + class}},
		"ours":    {[]string{own + "csiaddonsnodes.yaml", own + "networkfences.yaml"}, []string{kinds}},
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
