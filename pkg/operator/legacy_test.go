package operator

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/legacy"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	privilegedBinding = "manila-controller-privileged-binding"
	privilegedRole    = "manila-privileged-role"
)

// legacyRun is the controller in a cluster that contains everything that earlier releases left.
type legacyRun struct {
	*driver
	sync      func() error
	client    *dynamicfake.FakeDynamicClient
	leftovers []legacy.Leftover
}

func newLegacyRun(t *testing.T) *legacyRun {
	t.Helper()
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	generations, err := d.generations()
	assert.NilError(t, err)
	r := &legacyRun{
		driver: d, sync: syncer(t, d, d.legacyController), leftovers: legacy.Leftovers(generations),
		client: d.cluster.Side(flavour.Guest).Dynamic.(*dynamicfake.FakeDynamicClient),
	}
	for _, l := range r.leftovers {
		assert.NilError(t, r.client.Tracker().Create(resourceOf(l), l.DeepCopy(), l.GetNamespace()))
	}
	assert.Assert(t, len(r.leftovers) > 0)
	return r
}

func resourceOf(l legacy.Leftover) schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(l.GroupVersionKind())
	return resource
}

func (r *legacyRun) change(t *testing.T, name, field string, value any) {
	t.Helper()
	i := slices.IndexFunc(r.leftovers, func(l legacy.Leftover) bool { return l.GetName() == name })
	live := r.leftovers[i].DeepCopy()
	live.Object[field] = value
	err := r.client.Tracker().Update(resourceOf(r.leftovers[i]), live, live.GetNamespace())
	assert.NilError(t, err)
}

func (r *legacyRun) left() (names []string) {
	for _, l := range r.leftovers {
		_, err := r.client.Tracker().Get(resourceOf(l), l.GetNamespace(), l.GetName())
		if err == nil { // NotFound is the only error of a tracker
			names = append(names, l.GetName())
		}
	}
	return names
}

// An administrator may change an object after the controller has read it.
func TestLegacyControllerDeletesOnlyLeftovers(t *testing.T) {
	t.Parallel()
	r := newLegacyRun(t)
	r.change(t, privilegedBinding, "metadata", map[string]any{
		"name": privilegedBinding, "uid": "the-uid", "resourceVersion": "7",
	})
	setState(t, r.operator, opv1.Unmanaged)
	assert.NilError(t, r.sync())
	assert.Check(t, is.Len(r.client.Actions(), 0), "while Unmanaged")
	setState(t, r.operator, opv1.Managed)
	assert.NilError(t, r.sync())
	assert.Check(t, is.Len(r.left(), 0), "leftovers that stay")
	var want, got []string
	for _, l := range r.leftovers {
		want = append(want, l.GetName())
	}
	for _, action := range r.client.Actions() {
		deletion, ok := action.(clienttesting.DeleteActionImpl)
		if !ok {
			continue
		}
		got = append(got, deletion.Name)
		if only := deletion.DeleteOptions.Preconditions; deletion.Name == privilegedBinding {
			assert.Check(t, *only.UID == "the-uid" && *only.ResourceVersion == "7", "%v", only)
		}
	}
	assert.Check(t, is.DeepEqual(want, got), "deletions")
	sent := r.events.(events.InMemoryRecorder).Events()
	assert.Assert(t, is.Len(sent, len(want)), "an event for each deletion")
	assert.Check(t, is.Equal(sent[0].Reason, "ClusterRoleBindingDeleted"))
	assert.Check(t, is.Contains(sent[0].Message, privilegedBinding))
}

func TestLegacyControllerKeepsChangedObjectsAndWhatTheyName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object, field string
		value         any
		want          []string
	}{
		"a role with other rules": {privilegedRole, "rules", []any{}, []string{privilegedRole}},
		"a binding with other subjects": {
			privilegedBinding, "subjects", []any{}, []string{privilegedBinding, privilegedRole},
		},
		"a binding to another role": {
			privilegedBinding, "roleRef",
			map[string]any{"kind": "ClusterRole", "name": "other"},
			[]string{privilegedBinding},
		},
	} {
		r := newLegacyRun(t)
		r.change(t, test.object, test.field, test.value)
		assert.NilError(t, r.sync())
		assert.Check(t, is.DeepEqual(test.want, r.left()), "leftovers that stay, %s", name)
		r.client.ClearActions()
		assert.NilError(t, r.sync())
		assert.Check(t, is.Len(r.client.Actions(), 0), "a second sync, %s", name)
	}
}

func TestLegacyControllerDeletesBindingsBeforeTheirRoles(t *testing.T) {
	t.Parallel()
	r := newLegacyRun(t)
	allow := refuse(&r.client.Fake, "delete", "clusterrolebindings",
		errors.New("refused by a webhook"))
	want := "deleting ClusterRoleBinding " + privilegedBinding +
		", which an earlier release left: refused by a webhook"
	assert.Check(t, is.Error(r.sync(), want))
	assert.Check(t, is.Len(r.left(), len(r.leftovers)), "while bindings cannot be deleted")
	allow()
	assert.NilError(t, r.sync())
	assert.Check(t, is.Len(r.left(), 0), "after a retry")
}

// The pods of an earlier release need the leftovers until they are replaced.
func TestLegacyControllerWaitsUntilTheLeftoversAreReplaced(t *testing.T) {
	t.Parallel()
	for _, deployed := range []bool{true, false} {
		r := newLegacyRun(t)
		kube := r.cluster.Side(flavour.ControlPlane).Kube.(*kubefake.Clientset)
		if deployed {
			clustertest.Put(t, kube, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
				Namespace: operandNamespace, Name: "openstack-manila-csi-controllerplugin",
			}})
		}
		replace := r.initialSyncs.track(func(context.Context, factory.SyncContext) error { return nil })
		for range 3 {
			assert.NilError(t, r.sync())
		}
		assert.Check(t, !deployed || len(kube.Actions()) == 1, "while it waits: %v", kube.Actions())
		assert.Check(t, is.Equal(len(r.left()) > 0, deployed), "leftovers stay until they are replaced")
		assert.NilError(t, replace(t.Context(), nil))
		assert.NilError(t, r.sync())
		assert.Check(t, is.Len(r.left(), 0), "leftovers that stay; deployed: %t", deployed)
	}
}

// Kubernetes deletes the Secret with the certificate of a Service after the Service.
func TestLegacyControllerKeepsTheServiceWhilePodsMayMountItsCertificate(t *testing.T) {
	t.Parallel()
	certificate := corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: "manila-csi-driver-controller-metrics-serving-cert",
	}}}
	complete := appsv1.DeploymentStatus{UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
		Reason: "NewReplicaSetAvailable",
	}}}
	for name, test := range map[string]struct {
		volumes []corev1.Volume
		status  appsv1.DeploymentStatus
		stays   bool
	}{
		"pods of the earlier release": {[]corev1.Volume{certificate}, complete, true},
		"pods of both releases":       {nil, appsv1.DeploymentStatus{}, true},
		"pods of this release":        {nil, complete, false},
	} {
		deployment := &appsv1.Deployment{Status: test.status}
		deployment.Namespace, deployment.Name = "operators", "openstack-manila-csi-controllerplugin"
		deployment.Spec.Template.Spec.Volumes = test.volumes
		fake := clustertest.New(t, clustertest.Seed{
			Flavour: flavour.HyperShift, OperatorNamespace: "operators",
			DriverNamespace: operandNamespace, ControlPlane: []runtime.Object{deployment},
		})
		d := assembledIn(t, fake, plugins()...)[0]
		sync := syncer(t, d, d.legacyController)
		generations, err := d.generations()
		assert.NilError(t, err)
		leftovers := legacy.Leftovers(generations)
		service := leftovers[len(leftovers)-1].Unstructured
		services := d.cluster.Side(flavour.ControlPlane).Dynamic.
			Resource(corev1.SchemeGroupVersion.WithResource("services")).Namespace("operators")
		_, err = services.Create(t.Context(), service, metav1.CreateOptions{})
		assert.NilError(t, err)
		fake.Start(t)
		assert.NilError(t, sync())
		_, err = services.Get(t.Context(), service.GetName(), metav1.GetOptions{})
		assert.Check(t, (err == nil || apierrors.IsNotFound(err)) && (err == nil) == test.stays,
			"%s: reading the Service returns %v, and it stays: want %t", name, err, test.stays)
	}
}

func TestDriverWithoutEarlierReleasesNeedsNoLegacyController(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.Standalone, plugins()...)[1] // has no assets for CSI-Addons
	d.csiDriver = "new.csi.openstack.org"
	for name, build := range map[string]func(string) (factory.Controller, error){
		"conditions": d.staleConditions, "RBAC objects": d.legacyController,
	} {
		controller, err := build("Test")
		assert.Check(t, controller == nil && err == nil, "a controller of %s, %v", name, err)
	}
}

// Both flavours of csi-operator have a static resources controller for each side.
func TestStaleConditionsDependOnTheFlavour(t *testing.T) {
	t.Parallel()
	const ours = "OpenStackManilaDriverControlPlaneStaticResourcesControllerDegraded"
	for _, f := range flavour.All() {
		generations, err := assembled(t, f, plugins()...)[0].generations()
		assert.NilError(t, err)
		stale := slices.Contains(legacy.StaleConditions(generations), ours)
		assert.Check(t, is.Equal(stale, f == flavour.Standalone), "%s: %s is stale", f, ours)
	}
}
