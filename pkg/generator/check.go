package generator

import (
	"errors"
	"fmt"
	"strconv"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// check reports assets that do not fit together.
func (a *assembly) check() error {
	errs := []error{a.checkSidecars()}
	for part := range a.driver.content.parts() {
		errs = append(errs, checkContainers(a.workload(part)), a.checkPorts(part))
	}
	for _, asset := range a.assets {
		errs = append(errs, a.checkAsset(asset))
	}
	return errors.Join(errs...)
}

func (a *assembly) checkAsset(asset *asset) error {
	if err := checkRole(asset); err != nil {
		return err
	}
	switch object := asset.object.(type) {
	case *corev1.Service:
		return a.checkService(asset, object)
	case *policyv1.PodDisruptionBudget:
		return a.checkBudget(asset, object)
	case *storagev1.StorageClass:
		return a.checkOwnName(asset, "provisioner", object.Provisioner)
	case *snapshotv1.VolumeSnapshotClass:
		return a.checkOwnName(asset, "driver", object.Driver)
	case *storagev1.CSIDriver:
		return a.checkOwnName(asset, "metadata.name", object.Name)
	}
	return nil
}

// checkOwnName reports an object that names another CSI driver than its own.
func (a *assembly) checkOwnName(asset *asset, field, name string) error {
	if own := a.driver.content.Name; name != own {
		return position.ErrorAt(asset.find(name), "%q: %s is %q, but this driver is %q: write ${name}",
			asset.Name, field, name, own)
	}
	return nil
}

// checkRole reports an object with the role or the side of another controller: each kind has one
// writer, which reads the objects of one side.
func checkRole(asset *asset) error {
	type place struct {
		role bundle.Role
		side flavour.Side
	}
	want, ok := map[string]place{
		"Deployment":          {bundle.ControllerWorkload, flavour.ControlPlane},
		"DaemonSet":           {bundle.NodeWorkload, flavour.Guest},
		"StorageClass":        {bundle.StorageClass, flavour.Guest},
		"VolumeSnapshotClass": {bundle.SnapshotClass, flavour.Guest},
		"ServiceMonitor":      {bundle.ServiceMonitor, flavour.ControlPlane},
		"CSIDriver":           {bundle.CSIDriver, flavour.Guest},
	}[asset.kind()]
	if !ok {
		want = place{bundle.Static, asset.Side}
	}
	if asset.Role == bundle.OperatorMonitor && want.role == bundle.ServiceMonitor {
		want.role = bundle.OperatorMonitor
	}
	if asset.Role != want.role {
		return position.ErrorAt(asset.at, "%q is a %s: its role is %q, not %q",
			asset.Name, asset.kind(), want.role, asset.Role)
	}
	if asset.Side != want.side {
		return position.ErrorAt(asset.at, "%q is a %s: its side is %q, not %q; "+
			"the operator would not create it there", asset.Name, asset.kind(), want.side, asset.Side)
	}
	return nil
}

// checkService reports a Service without pods, and ports that its pods do not serve under the same
// number.
func (a *assembly) checkService(asset *asset, service *corev1.Service) error {
	template, err := a.selected(labels.SelectorFromSet(service.Spec.Selector))
	if err != nil {
		return position.ErrorAt(asset.find("selector"), "service %q: %w", asset.Name, err)
	}
	var errs []error
	for _, port := range service.Spec.Ports {
		if !exposes(template.Spec, port) {
			errs = append(errs, position.ErrorAt(asset.find(strconv.Itoa(int(port.Port))),
				"port %q (%d) of service %q: no container serves it", port.Name, port.Port, asset.Name))
		}
	}
	return errors.Join(errs...)
}

// exposes reports whether a container declares the target of a Service port, under the same number.
func exposes(spec corev1.PodSpec, port corev1.ServicePort) bool {
	for _, container := range containers(spec) {
		for _, own := range container.Ports {
			target := port.TargetPort
			byName := target.Type == intstr.String && target.StrVal == own.Name
			byNumber := target.Type == intstr.Int && target.IntVal == own.ContainerPort
			if (byName || byNumber) && port.Port == own.ContainerPort {
				return true
			}
		}
	}
	return false
}

// checkBudget reports a PodDisruptionBudget without pods.
func (a *assembly) checkBudget(asset *asset, budget *policyv1.PodDisruptionBudget) error {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err == nil {
		_, err = a.selected(selector)
	}
	if err != nil {
		return position.ErrorAt(asset.find("selector"), "budget %q: %w", asset.Name, err)
	}
	return nil
}

// selected returns the pod template that a selector matches.
func (a *assembly) selected(selector labels.Selector) (corev1.PodTemplateSpec, error) {
	for part := range a.driver.content.parts() {
		template := podTemplate(a.workload(part))
		if !selector.Empty() && selector.Matches(labels.Set(template.Labels)) {
			return template, nil
		}
	}
	return corev1.PodTemplateSpec{}, fmt.Errorf("selector %q matches no pods", selector)
}
