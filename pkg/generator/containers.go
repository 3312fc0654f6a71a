package generator

import (
	"errors"

	storagev1 "k8s.io/api/storage/v1"
)

// The sidecars without which no volume is mounted.
const (
	attacherSidecar  = "attacher"
	registrarSidecar = "node-driver-registrar"
)

// checkContainers reports containers of a workload that only a patch knows.
func (a *assembly) checkContainers(part string) error {
	workload := a.workload(part)
	all := containers(podTemplate(workload).Spec)
	var names []string
	for _, container := range all {
		names = append(names, container.Name)
	}
	var faults []error
	for _, container := range all {
		if container.Image == "" {
			faults = append(faults, faultf(workload.locate(container.Name), "container %q of %q has no image: is the name misspelt? There are %q",
				container.Name, workload.Name, names))
		}
	}
	return errors.Join(faults...)
}

// checkServices insists on the sidecars that a driver needs which kubelet and Kubernetes know, that is one with a CSIDriver.
func (a *assembly) checkServices() error {
	var faults []error
	for _, one := range a.assets {
		object, isDriver := one.object.(*storagev1.CSIDriver)
		if !isDriver {
			continue
		}
		if a.driver.content.Node != nil && !a.uses(nodePart, registrarSidecar) {
			faults = append(faults, faultf(a.driver.at(nodePart), "the node part has no sidecar %q: kubelet would not know the driver", registrarSidecar))
		}
		attach := object.Spec.AttachRequired == nil || *object.Spec.AttachRequired
		if attached := a.uses(controllerPart, attacherSidecar); attach && !attached {
			faults = append(faults, faultf(one.locate("attachRequired"),
				"%q: attachRequired is true, which is the default, but the controller part has no sidecar %q: no volume would be attached",
				one.Name, attacherSidecar))
		}
	}
	return errors.Join(faults...)
}

// uses tells whether a part of the driver has a sidecar in this flavour.
func (a *assembly) uses(part, sidecar string) bool {
	for own, p := range a.driver.content.parts() {
		for _, use := range p.Sidecars {
			if own == part && use.Use == sidecar && a.wanted(use.Only) {
				return true
			}
		}
	}
	return false
}
