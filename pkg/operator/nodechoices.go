package operator

import (
	"cmp"
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// nodeChoicesHook returns the hook that applies the choices for node plugins. An event warns of
// another folder of the kubelet, which only drained nodes survive.
func (d *driver) nodeChoicesHook(deployed func() *appsv1.DaemonSet) hook.Workload {
	return hook.Workload{DaemonSet: func(_ *opv1.OperatorSpec, wanted *appsv1.DaemonSet) error {
		config, err := d.checkedChoices()
		if err != nil {
			return err
		}
		config.ApplyToNodes(&wanted.Spec.Template)
		before := choice.KubeletDir(&cmp.Or(deployed(), wanted).Spec.Template.Spec)
		now := choice.KubeletDir(&wanted.Spec.Template.Spec)
		if before != "" && before != now {
			d.events.Warningf("KubeletDirChanged", "DaemonSet %s/%s: the folder of the kubelet changes "+
				"from %s to %s. While the kubelet of a node uses another folder, the node mounts and "+
				"unmounts no volumes of the driver: drain it first",
				wanted.Namespace, wanted.Name, before, now)
		}
		return nil
	}}
}

// controllerChoicesHook returns the hook that applies the choices for the pods of the controller.
func (d *driver) controllerChoicesHook() hook.Workload {
	return hook.Workload{Deployment: func(_ *opv1.OperatorSpec, wanted *appsv1.Deployment) error {
		config, err := d.checkedChoices()
		config.ApplyToController(wanted)
		return err
	}}
}

// configuredAnnotation marks the DaemonSet of a driver whose administrator has choices. An
// annotation of a Deployment would be another generation. Who changes it in a guest cluster delays
// the start there, or gets the defaults for a moment.
const configuredAnnotation = "csi.openstack.org/configured"

func (d *driver) configuredHook(deployed func() *appsv1.DaemonSet) hook.Workload {
	return hook.Workload{DaemonSet: func(_ *opv1.OperatorSpec, wanted *appsv1.DaemonSet) error {
		if d.choices != nil && d.choices.Get() != nil {
			metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, configuredAnnotation, "true")
		} else if isConfigured(deployed()) {
			// library-go removes what ends with a hyphen.
			metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, configuredAnnotation+"-", "")
		}
		return nil
	}}
}

func isConfigured(deployed *appsv1.DaemonSet) bool {
	return deployed != nil && deployed.Annotations[configuredAnnotation] != ""
}

// awaitChoices waits until the ConfigMap with the choices exists, if an earlier process knew it. A
// tool may be replacing it, and the defaults would create StorageClasses and roll out pods. After
// plugin.ReplacementTime it counts as deleted.
func (d *driver) awaitChoices(ctx context.Context) {
	if d.choices == nil {
		return
	}
	_, object, err := d.workload(bundle.NodeWorkload, flavour.Guest)
	if err != nil || object == nil {
		return
	}
	daemonSet := d.cluster.DaemonSet(flavour.Guest, object.Namespace, object.Name)
	poll := func(ctx context.Context, until func() bool) {
		_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true,
			func(context.Context) (bool, error) { return until(), nil })
	}
	poll(ctx, func() bool { return d.choices.HasSynced() && daemonSet.HasSynced() })
	if d.choices.Get() != nil || !isConfigured(daemonSet.Get()) {
		return
	}
	klog.FromContext(ctx).Info("Waiting for a ConfigMap that an earlier process knew",
		"configMap", d.choices.Name)
	ctx, cancel := context.WithTimeout(ctx, plugin.ReplacementTime)
	defer cancel()
	poll(ctx, func() bool { return d.choices.Get() != nil })
}
