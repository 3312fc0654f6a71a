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
)

// check reports finished assets which do not fit together.
func (a *assembly) check() error {
	faults := []error{a.checkServices()}
	for part := range a.driver.content.parts() {
		faults = append(faults, a.checkContainers(part), a.checkPorts(part))
	}
	for _, one := range a.assets {
		faults = append(faults, a.checkAsset(one))
	}
	return errors.Join(faults...)
}

func (a *assembly) checkAsset(one *asset) error {
	if err := checkRole(one, one.kind()); err != nil {
		return err
	}
	switch object := one.object.(type) {
	case *corev1.Service:
		return a.checkService(one, object)
	case *policyv1.PodDisruptionBudget:
		return a.checkBudget(one, object)
	case *storagev1.StorageClass:
		return a.checkOwnName(one, "provisioner", object.Provisioner)
	case *snapshotv1.VolumeSnapshotClass:
		return a.checkOwnName(one, "driver", object.Driver)
	case *storagev1.CSIDriver:
		return a.checkOwnName(one, "metadata.name", object.Name)
	}
	return nil
}

// checkOwnName insists that an object which names a CSI driver names the one that it is installed with.
func (a *assembly) checkOwnName(one *asset, field, name string) error {
	if name != a.driver.content.Name {
		return faultf(one.locate(name), "%q: %s is %q, but this driver is %q: write ${name}", one.Name, field, name, a.driver.content.Name)
	}
	return nil
}

// checkRole insists that kinds which have a writer of their own do not get a second one, and the other way round; and
// that the writer looks for them on the side where they are.
func checkRole(one *asset, kind string) error {
	want := bundle.Static
	switch kind {
	case "Deployment":
		want = bundle.ControllerWorkload
	case "DaemonSet":
		want = bundle.NodeWorkload
	case "StorageClass":
		want = bundle.StorageClass
	case "VolumeSnapshotClass":
		want = bundle.SnapshotClass
	case "ServiceMonitor":
		want = bundle.ServiceMonitor
	case "CSIDriver":
		want = bundle.CSIDriver
	}
	if one.Role != want {
		return faultf(one.at, "%q is a %s: its role is %q, not %q", one.Name, kind, want, one.Role)
	}
	side := one.Side
	switch one.Role {
	case bundle.ControllerWorkload, bundle.ServiceMonitor:
		side = flavour.ControlPlane
	case bundle.NodeWorkload, bundle.StorageClass, bundle.SnapshotClass, bundle.CSIDriver:
		side = flavour.Guest
	}
	if one.Side != side {
		return faultf(one.at, "%q is a %s: its side is %q, not %q; nobody would create it there", one.Name, kind, side, one.Side)
	}
	return nil
}

// checkService insists that pods are behind a Service and serve its ports, under the same numbers.
func (a *assembly) checkService(one *asset, service *corev1.Service) error {
	template, err := a.selected(labels.SelectorFromSet(service.Spec.Selector))
	if err != nil {
		return &Error{Position: one.locate("selector"), Err: fmt.Errorf("service %q: %w", one.Name, err)}
	}
	var faults []error
	for _, port := range service.Spec.Ports {
		if !exposes(template.Spec, port) {
			at := one.locate(strconv.Itoa(int(port.Port)))
			faults = append(faults, faultf(at, "port %q (%d) of service %q: nobody serves it", port.Name, port.Port, one.Name))
		}
	}
	return errors.Join(faults...)
}

// exposes tells whether a container has the port which a Service port leads to.
func exposes(spec corev1.PodSpec, port corev1.ServicePort) bool {
	for _, container := range containers(spec) {
		for _, own := range container.Ports {
			named := port.TargetPort.Type == intstr.String && port.TargetPort.StrVal == own.Name
			numbered := port.TargetPort.Type == intstr.Int && port.TargetPort.IntVal == own.ContainerPort
			if (named || numbered) && port.Port == own.ContainerPort {
				return true
			}
		}
	}
	return false
}

// checkBudget insists that pods are behind a PodDisruptionBudget.
func (a *assembly) checkBudget(one *asset, budget *policyv1.PodDisruptionBudget) error {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err == nil {
		_, err = a.selected(selector)
	}
	if err != nil {
		return &Error{Position: one.locate("selector"), Err: fmt.Errorf("budget %q: %w", one.Name, err)}
	}
	return nil
}

// selected returns the pod template which a selector matches.
func (a *assembly) selected(selector labels.Selector) (corev1.PodTemplateSpec, error) {
	for part := range a.driver.content.parts() {
		template := podTemplate(a.workload(part))
		if !selector.Empty() && selector.Matches(labels.Set(template.Labels)) {
			return template, nil
		}
	}
	return corev1.PodTemplateSpec{}, fmt.Errorf("selector %q matches no pods", selector)
}
