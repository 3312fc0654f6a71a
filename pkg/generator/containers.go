package generator

import (
	"errors"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// The sidecars without which no volume is mounted.
const (
	attacherSidecar  = "attacher"
	registrarSidecar = "node-driver-registrar"
)

// checkContainers reports containers without image, which only a patch with a misspelt name adds,
// and mounts of volumes that do not exist.
func checkContainers(workload *asset) error {
	return errors.Join(checkImages(workload), checkMounts(workload))
}

func checkMounts(workload *asset) error {
	pod := podTemplate(workload).Spec
	volumes := sets.New[string]()
	for _, volume := range pod.Volumes {
		volumes.Insert(volume.Name)
	}
	var errs []error
	for _, container := range containers(pod) {
		for _, mount := range container.VolumeMounts {
			if !volumes.Has(mount.Name) {
				errs = append(errs, position.ErrorAt(workload.find(mount.Name),
					"container %q of %q mounts volume %q, which does not exist. There are %q",
					container.Name, workload.Name, mount.Name, sets.List(volumes)))
			}
		}
	}
	return errors.Join(errs...)
}

func checkImages(workload *asset) error {
	all := containers(podTemplate(workload).Spec)
	var names []string
	for _, container := range all {
		names = append(names, container.Name)
	}
	var errs []error
	for _, container := range all {
		if container.Image == "" {
			errs = append(errs, position.ErrorAt(workload.find(container.Name),
				"container %q of %q has no image: is the name misspelt? There are %q",
				container.Name, workload.Name, names))
		}
	}
	return errors.Join(errs...)
}

// checkSidecars reports sidecars that a driver with a CSIDriver needs and does not have.
func (a *assembly) checkSidecars() error {
	var errs []error
	for _, csiDriver := range a.assets {
		object, ok := csiDriver.object.(*storagev1.CSIDriver)
		if !ok {
			continue
		}
		if a.driver.content.Node != nil && !a.uses(nodePart, registrarSidecar) {
			errs = append(errs, a.driver.source(nodePart).errorf(
				"the node part has no sidecar %q: the kubelet would not register the driver", registrarSidecar))
		}
		attach := object.Spec.AttachRequired == nil || *object.Spec.AttachRequired
		if attach && !a.uses(controllerPart, attacherSidecar) {
			errs = append(errs, position.ErrorAt(csiDriver.find("attachRequired"),
				"%q: attachRequired is true, which is the default, but the controller part has no "+
					"sidecar %q: no volume would be attached", csiDriver.Name, attacherSidecar))
		}
	}
	return errors.Join(errs...)
}

func (a *assembly) uses(part, sidecar string) bool {
	for _, use := range a.driver.content.part(part).Sidecars {
		if use.Use == sidecar && a.has(use.Only) {
			return true
		}
	}
	return false
}
