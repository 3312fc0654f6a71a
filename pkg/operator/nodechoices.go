package operator

import (
	appsv1 "k8s.io/api/apps/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// nodeChoicesHook returns the hook that applies the choices for node plugins. An event warns of
// another folder of the kubelet, which only drained nodes survive.
func (d *driver) nodeChoicesHook(daemonSets appslisters.DaemonSetLister) hook.Workload {
	return hook.Workload{DaemonSet: func(_ *opv1.OperatorSpec, wanted *appsv1.DaemonSet) error {
		config, err := d.choices.Current()
		if err != nil {
			return err
		}
		config.ApplyToNodes(&wanted.Spec.Template.Spec)
		deployed, err := daemonSets.DaemonSets(wanted.Namespace).Get(wanted.Name)
		if err != nil { // NotFound, the only error of a cache
			deployed = wanted
		}
		before := choice.KubeletDir(&deployed.Spec.Template.Spec)
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
