package generator

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
)

// check reports finished assets which do not fit together.
func (a *assembly) check() error {
	var faults []error
	for part := range a.driver.content.parts() {
		faults = append(faults, a.checkPorts(part))
	}
	for _, one := range a.assets {
		faults = append(faults, a.checkAsset(one))
	}
	return errors.Join(faults...)
}

func (a *assembly) checkAsset(one *asset) error {
	kind, err := one.kind()
	if err != nil {
		return err
	}
	if err := checkRole(one, kind); err != nil {
		return err
	}
	switch kind {
	case "Service":
		return a.checkService(one)
	case "PodDisruptionBudget":
		return a.checkBudget(one)
	}
	return nil
}

// checkRole insists that kinds which have a writer of their own do not get a second one, and the other way round.
func checkRole(one *asset, kind string) error {
	want := bundle.Static
	switch kind {
	case "":
		return faultf(one.at, "%q has no kind", one.Name)
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
	return nil
}

// checkService insists that pods are behind a Service and serve its ports, under the same numbers.
func (a *assembly) checkService(one *asset) error {
	var service corev1.Service
	if err := yaml.Unmarshal(one.Data, &service); err != nil {
		return fmt.Errorf("reading service %q: %w", one.Name, err)
	}
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
func (a *assembly) checkBudget(one *asset) error {
	var budget policyv1.PodDisruptionBudget
	if err := yaml.Unmarshal(one.Data, &budget); err != nil {
		return fmt.Errorf("reading budget %q: %w", one.Name, err)
	}
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
		template, err := podTemplate(a.workload(part))
		if err != nil {
			return template, err
		}
		if !selector.Empty() && selector.Matches(labels.Set(template.Labels)) {
			return template, nil
		}
	}
	return corev1.PodTemplateSpec{}, fmt.Errorf("selector %q matches no pods", selector)
}
