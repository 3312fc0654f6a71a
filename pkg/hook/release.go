package hook

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// The annotations of Deployments from which HyperShift reads whether a release is rolled out.
const (
	// DesiredVersionAnnotation contains the desired release of the Deployment.
	DesiredVersionAnnotation = "release.openshift.io/desired-version"
	// VersionAnnotation contains the release whose rollout is complete.
	VersionAnnotation = "release.openshift.io/version"
)

// newReplicaSetAvailable is the reason of the condition Progressing after a complete rollout, see
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#complete-deployment.
const newReplicaSetAvailable = "NewReplicaSetAvailable"

// Release annotates the Deployment with its desired release and, after the rollout, with the
// current release. If version is "", the hook uses the annotation that cluster-storage-operator
// sets on the operator's own Deployment. If that is missing too, it sets nothing, because
// HyperShift would wait forever for a wrong release. deployed returns the Deployment of the
// cluster, nil if there is none; its changes must repeat the hook.
func Release(
	c *cluster.Cluster, deployed func() *appsv1.Deployment, operatorName, version string,
) Workload {
	operator := c.Deployment(flavour.ControlPlane, c.Namespaces.Operator, operatorName)
	return Workload{
		Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
			reportRelease(d, deployed(), cmp.Or(version, releaseOf(operator.Get())))
			return nil
		},
		Informers: []factory.Informer{operator.Informer},
	}
}

func reportRelease(d, before *appsv1.Deployment, desired string) {
	delete(d.Annotations, DesiredVersionAnnotation)
	if desired == "" {
		return
	}
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, DesiredVersionAnnotation, desired)
	if before != nil && before.Annotations[DesiredVersionAnnotation] == desired && RolledOut(before) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, VersionAnnotation, desired)
	}
}

// releaseOf returns the release in the annotation of the operator's Deployment, "" if it is
// unknown. While this Deployment rolls out, its annotation is for the next operator: the old one
// would report the new release with the old images.
func releaseOf(operator *appsv1.Deployment) string {
	if operator == nil || !RolledOut(operator) ||
		strings.Contains(operator.Annotations[DesiredVersionAnnotation], "${") { // was not filled
		return ""
	}
	return operator.Annotations[DesiredVersionAnnotation]
}

// RolledOut returns true if all pods have the current template. The condition alone does not
// suffice: when replicas and template change at once, it is about the earlier rollout for a moment.
func RolledOut(d *appsv1.Deployment) bool {
	if d.Status.ObservedGeneration != d.Generation ||
		d.Status.UpdatedReplicas < ptr.Deref(d.Spec.Replicas, 1) {
		return false
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c.Status == corev1.ConditionTrue && c.Reason == newReplicaSetAvailable
		}
	}
	return false
}
