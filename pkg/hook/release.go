package hook

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// What HyperShift looks for on Deployments of a control plane to learn when a release has been rolled out.
const (
	// DesiredVersionAnnotation has the release that the Deployment is to be at.
	DesiredVersionAnnotation = "release.openshift.io/desired-version"
	// VersionAnnotation has the release that the Deployment is at.
	VersionAnnotation = "release.openshift.io/version"
)

// newReplicaSetAvailable is the reason of a Deployment's Progressing condition when its rollout is complete, see
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#complete-deployment.
const newReplicaSetAvailable = "NewReplicaSetAvailable"

// Release reports to which release the Deployment is to be rolled out, and when that is done. version is what the operator has been
// told; where it has been told nothing, "", it is what cluster-storage-operator says on the operator's own Deployment, which is
// called operatorName. Where that says nothing either, nothing is added to what the Deployment says: a wrong version would be
// waited for in vain. deployments must have the Deployment as it is in the cluster, and its changes must repeat the hook.
func Release(c *cluster.Cluster, deployments appslisters.DeploymentLister, operatorName, version string) Workload {
	namespace := c.Namespaces.Operator
	operator := c.Side(flavour.ControlPlane).ObjectInformers.For(namespace, operatorName).Apps().V1().Deployments()
	r := release{
		deployments: deployments,
		operators:   operator.Lister().Deployments(namespace),
		operator:    operatorName,
		version:     version,
	}
	return Workload{
		Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error { return r.report(d) },
		Informers:  []factory.Informer{operator.Informer()},
	}
}

type release struct {
	deployments       appslisters.DeploymentLister
	operators         appslisters.DeploymentNamespaceLister
	operator, version string
}

func (r release) report(d *appsv1.Deployment) error {
	desired, err := r.desired()
	if err != nil {
		return err
	}
	before, err := r.deployments.Deployments(d.Namespace).Get(d.Name)
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("reading Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	delete(d.Annotations, DesiredVersionAnnotation)
	if desired == "" {
		return nil
	}
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, DesiredVersionAnnotation, desired)
	exists := err == nil
	if exists && before.Annotations[DesiredVersionAnnotation] == desired && rolledOut(before) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, VersionAnnotation, desired)
	}
	return nil
}

// desired is the release that the Deployment is to be at, "" if nobody says. An operator that is being replaced must not take the
// word that is meant for its successor: it would report the new release with the old images.
func (r release) desired() (string, error) {
	if r.version != "" {
		return r.version, nil
	}
	operator, err := r.operators.Get(r.operator)
	if err != nil || !rolledOut(operator) {
		return "", ignoreNotFound(err)
	}
	version := operator.Annotations[DesiredVersionAnnotation]
	if strings.Contains(version, "${") {
		return "", nil // the placeholder of its manifest, which nobody has filled
	}
	return version, nil
}

// rolledOut tells whether all pods are of the Deployment as it is now. The condition alone does not say so: it is that of an earlier
// rollout for a moment when replicas and pods are changed at once.
func rolledOut(d *appsv1.Deployment) bool {
	if d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas < ptr.Deref(d.Spec.Replicas, 1) {
		return false
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c.Status == corev1.ConditionTrue && c.Reason == newReplicaSetAvailable
		}
	}
	return false
}
