package hook_test

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourcemerge"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const operatorName = "driver-operator"

// versions returns the annotations with the desired and the current release.
func versions(desired, at string) map[string]string {
	annotations := map[string]string{}
	if desired != "" {
		annotations[hook.DesiredVersionAnnotation] = desired
	}
	if at != "" {
		annotations[hook.VersionAnnotation] = at
	}
	return annotations
}

// complete returns the status of a Deployment of generation 2 after the rollout.
func complete() appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{
		ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
				Reason: "NewReplicaSetAvailable",
			},
		},
	}
}

// deployment returns a Deployment of a management cluster.
func deployment(name string, annotations map[string]string,
	status appsv1.DeploymentStatus,
) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: hosted, Name: name, Generation: 2,
			Annotations: annotations,
		}, Status: status,
	}
}

// released returns the annotations of the manifest after the hook, and the annotations after it is
// applied to the cluster.
func released(t *testing.T, version string, cluster ...*appsv1.Deployment) (given,
	merged map[string]string,
) {
	t.Helper()
	live := &appsv1.Deployment{}
	var objects []runtime.Object
	for _, d := range cluster {
		objects = append(objects, d)
		if d.Name == "controller" {
			live = d.DeepCopy()
		}
	}
	f := clustertest.New(t, clustertest.Seed{
		Flavour: flavour.HyperShift, OperatorNamespace: hosted, DriverNamespace: guest,
		ControlPlane: objects,
		// Deployments of the guest cluster do not count.
		Guest: []runtime.Object{&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: guest, Name: operatorName, Annotations: versions("guest", "guest"),
		}}},
	})
	named := f.Side(flavour.ControlPlane).ObjectInformers
	h := hook.Release(f.Cluster, named.For(hosted, "controller").Apps().V1().Deployments().Lister(),
		operatorName, version)
	informer := named.For(hosted, operatorName).Apps().V1().Deployments().Informer()
	assert.Check(t, slices.Contains(h.Informers, factory.Informer(informer)),
		"an operator that has rolled out repeats nothing: the hook does not name the informer")
	f.Start(t)
	fresh := manifest()
	fresh.Annotations = map[string]string{hook.DesiredVersionAnnotation: "unknown", "other": "kept"}
	got := applied(t, h, fresh)
	assert.Check(t, got.Annotations["other"] == "kept", "another annotation is lost")
	delete(got.Annotations, "other")
	var modified bool
	resourcemerge.EnsureObjectMeta(&modified, &live.ObjectMeta,
		metav1.ObjectMeta{Annotations: got.Annotations})
	return got.Annotations, live.Annotations
}

func TestDesiredVersionIsSet(t *testing.T) {
	t.Parallel()
	before := complete()
	before.ObservedGeneration = 1
	operator := func(desired string) *appsv1.Deployment {
		return deployment(operatorName, versions(desired, ""), complete())
	}
	for name, test := range map[string]struct {
		version string
		cluster []*appsv1.Deployment
		want    string
	}{
		"told otherwise than the operator's Deployment": {
			"4.21", []*appsv1.Deployment{operator("4.20")}, "4.21",
		},
		"the operator's Deployment says it": {"", []*appsv1.Deployment{operator("4.21")}, "4.21"},
		"another Deployment says it": {
			"", []*appsv1.Deployment{deployment("other", versions("4.21", ""), complete())}, "",
		},
		"the operator's Deployment says nothing": {"", []*appsv1.Deployment{operator("")}, ""},
		"nobody has filled the operator's Deployment": {
			"", []*appsv1.Deployment{operator("${RELEASE_VERSION}")}, "",
		},
		"the operator is being replaced": {
			"", []*appsv1.Deployment{deployment(operatorName, versions("4.21", ""), before)}, "",
		},
	} {
		got, _ := released(t, test.version, test.cluster...)
		assert.Check(t, is.DeepEqual(versions(test.want, ""), got), name)
	}
}

// The test upgrades from 4.20 to 4.21.
func TestVersionIsSetAfterTheRollout(t *testing.T) {
	t.Parallel()
	changed := func(change func(*appsv1.DeploymentStatus)) appsv1.DeploymentStatus {
		s := complete()
		change(&s)
		return s
	}
	observed := changed(func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 })
	updated := complete()
	updated.Conditions[1].Reason = "ReplicaSetUpdated"
	for name, test := range map[string]struct {
		live         map[string]string
		status       appsv1.DeploymentStatus
		given, after string // the current release in the manifest, and in the cluster
	}{
		"at the old release": {versions("4.20", "4.20"), complete(), "", "4.20"},
		"just changed":       {versions("4.21", "4.20"), observed, "", "4.20"},
		"changed and scaled at once": {
			versions("4.21", "4.20"),
			changed(func(s *appsv1.DeploymentStatus) { s.UpdatedReplicas = 0 }), "", "4.20",
		},
		"rolling out": {versions("4.21", "4.20"), updated, "", "4.20"},
		"stuck": {
			versions("4.21", "4.20"), changed(func(s *appsv1.DeploymentStatus) {
				s.Conditions[1].Status = corev1.ConditionFalse
			}), "", "4.20",
		},
		"of unknown progress": {
			versions("4.21", "4.20"),
			changed(func(s *appsv1.DeploymentStatus) { s.Conditions = nil }), "", "4.20",
		},
		"rolled out":                       {versions("4.21", "4.20"), complete(), "4.21", "4.21"},
		"new and rolled out":               {versions("4.21", ""), complete(), "4.21", "4.21"},
		"rolling out for another reason":   {versions("4.21", "4.21"), updated, "", "4.21"},
		"of a release that did not report": {nil, complete(), "", ""},
	} {
		given, merged := released(t, "4.21", deployment("controller", test.live, test.status))
		assert.Check(t, is.DeepEqual(versions("4.21", test.given), given), "manifest, %s", name)
		assert.Check(t, is.DeepEqual(versions("4.21", test.after), merged), "in the cluster, %s", name)
	}
}
