package kubectl

import (
	"cmp"
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// driver contains the names of the objects of a driver. A test compares them with the manifests.
type driver struct {
	// title is the name for people, name that of the CSI driver and of the object that configures it.
	// own is the name, if it differs, where the object is of our kind.
	title, name, own string
	kind             choice.Kind
	// operator is the name of the operator's Deployment, lease that of its Lease.
	operator, lease string
	// namespace is that of the driver, operatorIn that of the operator.
	namespace, operatorIn string
	controller            string
	nodes                 []string
	sidecars              []diagnosis.Sidecar
	credentials           string
	// loginSecret is the Secret that the driver reads, loginOf its data for a login, without the CA.
	loginSecret string
	loginOf     func(*clouds.Login) map[string]string
}

// service returns the service of OpenStack of a driver, and what that stores: volume or share.
func (d *driver) service() (of openstack.Service, thing string) {
	if d.kind == choice.Cinder {
		return openstack.Cinder(), "volume"
	}
	return openstack.Manila(), "share"
}

// drivers returns the drivers with the names that they have on OpenShift.
func drivers() []driver {
	return []driver{
		{
			title: "Cinder", name: string(opv1.CinderCSIDriver), kind: choice.Cinder,
			operator:  "openstack-cinder-csi-driver-operator",
			lease:     "openstack-cinder-csi-driver-operator-lock",
			namespace: flavour.DefaultNamespace, operatorIn: flavour.DefaultNamespace,
			controller:  "openstack-cinder-csi-driver-controller",
			nodes:       []string{"openstack-cinder-csi-driver-node"},
			credentials: "openstack-cloud-credentials",
			loginSecret: "openstack-cinder-csi-driver-login",
			loginOf: func(l *clouds.Login) map[string]string {
				return map[string]string{"login": string(l.CloudsYAML())}
			},
			sidecars: []diagnosis.Sidecar{
				diagnosis.Provisioner, diagnosis.Attacher, diagnosis.Resizer, diagnosis.Snapshotter,
			},
		},
		{
			title: "Manila", name: string(opv1.ManilaCSIDriver), kind: choice.Manila,
			own:       "nfs." + string(opv1.ManilaCSIDriver),
			operator:  "manila-csi-driver-operator",
			lease:     "openstack-manila-csi-driver-operator-lock",
			namespace: "openshift-manila-csi-driver", operatorIn: flavour.DefaultNamespace,
			controller:  "openstack-manila-csi-controllerplugin",
			nodes:       []string{"openstack-manila-csi-nodeplugin", "csi-nodeplugin-nfsplugin"},
			credentials: "manila-cloud-credentials",
			loginSecret: "csi-manila-secrets",
			loginOf:     (*clouds.Login).ManilaKeys,
			sidecars: []diagnosis.Sidecar{
				diagnosis.Provisioner, diagnosis.Resizer, diagnosis.Snapshotter,
			},
		},
	}
}

// The namespace in the manifests for Kubernetes, and the Secret in it.
const defaultNamespace, defaultSecret = "openstack-csi", "openstack-credentials"

// drivers returns the drivers as the cluster names them, and where its Deployments are.
func (c *cluster) drivers() []driver {
	all := drivers()
	for i := range all {
		d := &all[i]
		if c.onOpenShift() {
			break
		}
		d.name, d.credentials = cmp.Or(d.own, d.name), defaultSecret
		served := c.served[d.name]
		d.namespace = cmp.Or(served, defaultNamespace)
		d.operatorIn = d.namespace
		for _, one := range c.installed {
			if one.Name != d.operator && one.Name != d.controller ||
				one.Labels[instanceLabel] != d.instance() ||
				served != "" && one.Namespace != served {
				continue
			}
			d.namespace, d.operatorIn = one.Namespace, one.Namespace
			for _, arg := range one.Spec.Template.Spec.Containers[0].Args {
				if secret, found := strings.CutPrefix(arg, "--credentials-secret="); found {
					d.credentials = secret
				}
			}
		}
	}
	return all
}

// second returns the namespace of another installation of a driver, "" if there is none. Both need
// the objects without a namespace.
func (c *cluster) second(d driver) string {
	for _, o := range c.installed {
		if o.Name == d.operator && o.Namespace != d.namespace &&
			o.Labels[instanceLabel] == d.instance() {
			return o.Namespace
		}
	}
	return ""
}

// taker returns the namespace whose installation has the permissions of the operator of a driver
// instead of that operator, "" if there is none, or if that is not visible.
func (c *cluster) taker(ctx context.Context, d driver) (namespace string) {
	if c.onOpenShift() {
		return ""
	}
	binding := find(ctx, c, "", diagnosis.OperatorBinding(d.operator), &rbacv1.ClusterRoleBinding{})
	for _, account := range ptr.Deref(binding, rbacv1.ClusterRoleBinding{}).Subjects {
		if account.Namespace == d.operatorIn {
			return ""
		}
		if len(validation.IsDNS1123Label(account.Namespace)) == 0 { // it is in commands
			namespace = account.Namespace
		}
	}
	return namespace
}

// findDriver returns the driver with a name or a title; nil if there is none.
func (c *cluster) findDriver(name string) *driver {
	return c.driverIf(func(d driver) bool {
		return d.name == name || strings.EqualFold(d.title, name)
	})
}

// driverIf returns the first driver for which a function is true; nil if there is none.
func (c *cluster) driverIf(is func(driver) bool) *driver {
	for _, d := range c.drivers() {
		if is(d) {
			return &d
		}
	}
	return nil
}

// titleOf returns the name for people of a driver, also of others.
func (c *cluster) titleOf(name string) string {
	if d := c.findDriver(name); d != nil {
		return d.title
	}
	return "driver " + name
}

// choose returns the driver that the arguments name, by default all.
func (c *cluster) choose(args []string) ([]driver, error) {
	if len(args) == 0 {
		return c.drivers(), nil
	}
	one := c.findDriver(args[0])
	if one == nil {
		return nil, usage("unknown driver %q: use cinder or manila", args[0])
	}
	return []driver{*one}, nil
}

// driverOf returns the CSI driver of a PersistentVolume, "" if none serves it, or it is nil.
func driverOf(volume *corev1.PersistentVolume) string {
	if volume == nil {
		return ""
	}
	return ptr.Deref(source.Of(volume), corev1.CSIPersistentVolumeSource{}).Driver
}

// instance is the value of the label of its objects on Kubernetes.
func (d driver) instance() string { return "openstack-" + strings.ToLower(d.title) }

// allLeases returns the names of the Leases of the operator and of the sidecars.
func (d driver) allLeases() []string {
	names := []string{d.lease}
	for _, sidecar := range d.sidecars {
		names = append(names, sidecar.Lease(d.name))
	}
	return names
}

// workloads returns the names of the workloads of the driver and of its operator.
func (d driver) workloads() []string { return append(d.nodes, d.controller, d.operator) }
