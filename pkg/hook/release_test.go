package hook_test

import (
	"cmp"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	meta := metav1.ObjectMeta{
		Namespace: hosted, Name: name, Generation: 2, Annotations: annotations,
	}
	return &appsv1.Deployment{ObjectMeta: meta, Status: status}
}

// released returns the annotations of the manifest after the hook, and those of the live Deployment
// after the manifest is applied.
func released(t *testing.T, version string, live *appsv1.Deployment) (given,
	merged map[string]string,
) {
	t.Helper()
	f := clustertest.New(t, clustertest.Seed{
		Flavour: flavour.HyperShift, OperatorNamespace: hosted, DriverNamespace: guest,
		ControlPlane: []runtime.Object{live.DeepCopy()},
		// Deployments of the guest cluster do not count.
		Guest: []runtime.Object{&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: guest, Name: operatorName, Annotations: versions("guest", "guest"),
		}}},
	})
	h := hook.Release(f.Cluster, f.Deployment(flavour.ControlPlane, hosted, "controller").Get,
		operatorName, version)
	informer := f.Deployment(flavour.ControlPlane, hosted, operatorName).Informer
	assert.Check(t, slices.Contains(h.Informers, informer),
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
		version  string
		existing *appsv1.Deployment
		want     string
	}{
		"told otherwise than the operator's Deployment": {"4.21", operator("4.20"), "4.21"},
		"the operator's Deployment says it":             {"", operator("4.21"), "4.21"},
		"another Deployment says it": {
			"", deployment("other", versions("4.21", ""), complete()), "",
		},
		"nobody has filled the operator's Deployment": {"", operator("${RELEASE_VERSION}"), ""},
		"the operator is being replaced": {
			"", deployment(operatorName, versions("4.21", ""), before), "",
		},
	} {
		got, _ := released(t, test.version, test.existing)
		assert.Check(t, is.DeepEqual(versions(test.want, ""), got), name)
	}
}

// The test upgrades from 4.20 to 4.21.
func TestVersionIsSetAfterTheRollout(t *testing.T) {
	t.Parallel()
	type status = appsv1.DeploymentStatus
	done := func(*status) {}
	updated := func(s *status) { s.Conditions[1].Reason = "ReplicaSetUpdated" }
	for name, test := range map[string]struct {
		desired, at string // the releases in the cluster
		change      func(*status)
		want        string // the current release in the manifest
	}{
		"at the old release":         {"4.20", "4.20", done, ""},
		"just changed":               {"4.21", "4.20", func(s *status) { s.ObservedGeneration = 1 }, ""},
		"changed and scaled at once": {"4.21", "4.20", func(s *status) { s.UpdatedReplicas = 0 }, ""},
		"rolling out":                {"4.21", "4.20", updated, ""},
		"stuck": {
			"4.21", "4.20", func(s *status) { s.Conditions[1].Status = corev1.ConditionFalse }, "",
		},
		"of unknown progress":              {"4.21", "4.20", func(s *status) { s.Conditions = nil }, ""},
		"rolled out":                       {"4.21", "4.20", done, "4.21"},
		"new and rolled out":               {"4.21", "", done, "4.21"},
		"rolling out for another reason":   {"4.21", "4.21", updated, ""},
		"of a release that did not report": {"", "", done, ""},
	} {
		now := complete()
		test.change(&now)
		live := deployment("controller", versions(test.desired, test.at), now)
		given, merged := released(t, "4.21", live)
		assert.Check(t, is.DeepEqual(versions("4.21", test.want), given), "manifest, %s", name)
		after := versions("4.21", cmp.Or(test.want, test.at))
		assert.Check(t, is.DeepEqual(after, merged), "in the cluster, %s", name)
	}
}
