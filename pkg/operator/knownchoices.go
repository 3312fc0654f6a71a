package operator

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// configuredAnnotation marks a Deployment of a driver whose administrator has a ConfigMap with
// choices. The Deployment is in the management cluster, where nobody else can change it.
const configuredAnnotation = "csi.openstack.org/configured"

// configuredHook returns the hook that maintains the mark.
func (d *driver) configuredHook(deployments appslisters.DeploymentLister) hook.Workload {
	return hook.Workload{Deployment: func(_ *opv1.OperatorSpec, wanted *appsv1.Deployment) error {
		if d.choices != nil && d.choices.Get() != nil {
			metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, configuredAnnotation, "true")
		} else if isConfigured(deployments, wanted.Namespace, wanted.Name) {
			// library-go removes what ends with a hyphen.
			metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, configuredAnnotation+"-", "")
		}
		return nil
	}}
}

func isConfigured(deployments appslisters.DeploymentLister, namespace, name string) bool {
	found, err := deployments.Deployments(namespace).Get(name)
	return err == nil && found.Annotations[configuredAnnotation] != ""
}

// awaitChoices waits until the ConfigMap with the choices exists, if an earlier process knew it. A
// tool may be replacing it, and the defaults would create StorageClasses and roll out pods. After
// plugin.ReplacementTime it counts as deleted.
func (d *driver) awaitChoices(ctx context.Context) {
	if d.choices == nil {
		return
	}
	_, object, err := d.workload(bundle.ControllerWorkload, flavour.ControlPlane)
	if err != nil || object == nil {
		return
	}
	deployments := d.cluster.Side(flavour.ControlPlane).ObjectInformers.
		For(object.Namespace, object.Name).Apps().V1().Deployments()
	poll := func(ctx context.Context, until func() bool) {
		_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true,
			func(context.Context) (bool, error) { return until(), nil })
	}
	poll(ctx, func() bool {
		return d.choices.HasSynced() && deployments.Informer().HasSynced()
	})
	if d.choices.Get() != nil || !isConfigured(deployments.Lister(), object.Namespace, object.Name) {
		return
	}
	klog.FromContext(ctx).Info("Waiting for a ConfigMap that an earlier process knew",
		"configMap", d.choices.Name)
	ctx, cancel := context.WithTimeout(ctx, plugin.ReplacementTime)
	defer cancel()
	poll(ctx, func() bool { return d.choices.Get() != nil })
}
