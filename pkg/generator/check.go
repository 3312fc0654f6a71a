package generator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// checkNames reports missing keys, and names that belong to two drivers, at both of them. A
// companion driver has the names of the driver that it accompanies.
func (l *layers) checkNames() error {
	var errs []error
	for folder, m := range l.drivers {
		for _, key := range m.content.missing() {
			part, _, inPart := strings.Cut(key, ".")
			if !inPart {
				part = ""
			}
			errs = append(errs, m.Errorf(part, "%s is missing", key))
		}
		leader, known := l.drivers[m.content.CompanionOf]
		if m.content.CompanionOf != "" && (!known || leader.content.CompanionOf != "") {
			errs = append(errs, m.Errorf("companionOf",
				"companionOf: %q is not a driver, or is itself a companion", m.content.CompanionOf))
		}
		for other, otherDriver := range l.drivers {
			if cmp.Or(m.content.CompanionOf, folder) == cmp.Or(otherDriver.content.CompanionOf, other) {
				continue
			}
			names := otherDriver.content.names()
			for key, value := range m.content.names() {
				if value == names[key] && value != "" {
					errs = append(errs, m.Errorf(key, "%s %q is also the %s of driver %q", key, value, key, other))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// missing returns the required keys without a value.
func (d driver) missing() []string {
	missing := map[string]bool{"flavours": len(d.Flavours) == 0}
	for key, name := range d.names() {
		missing[key] = name == ""
	}
	for part, p := range d.parts() {
		missing[part+".name"] = p.Name == ""
		missing[part+".selector"] = len(p.Selector) == 0
		missing[part+".workload"] = p.Workload == ""
	}
	if d.Operator != nil {
		missing["operator.image"] = d.Operator.Image == ""
		missing["operator.credentials"] = d.Operator.Credentials == ""
	}
	maps.DeleteFunc(missing, func(_ string, isMissing bool) bool { return !isMissing })
	return slices.Sorted(maps.Keys(missing))
}

// names returns the values that no two drivers share, by their keys.
func (d driver) names() map[string]string {
	names := map[string]string{"name": d.Name, "prefix": d.Prefix, "clusterPrefix": d.ClusterPrefix}
	if d.Operator != nil {
		names["operator.name"] = d.Operator.Name
	}
	return names
}

// workload is the Deployment or the DaemonSet of an assembly.
type workload struct {
	*assembly
	part string
}

// check reports what no difference of the generated files shows: objects with two writers, pods
// that two workloads select, ports that clash, and what a driver lacks.
func check(assemblies []*assembly) error {
	defined := map[string]position.Position{}
	var errs []error
	var workloads []workload
	for _, a := range assemblies {
		a = cmp.Or(a.withCSIAddons, a)
		for _, name := range slices.Sorted(maps.Keys(a.assets)) {
			errs = append(errs, checkRole(a.assets[name]), a.define(a.assets[name], defined))
		}
		errs = append(errs, a.checkCSIDriver())
		for part := range a.driver.content.parts() {
			workloads = append(workloads, workload{a, part})
		}
	}
	for i, w := range workloads {
		for _, other := range workloads[:i] {
			if w.flavour == other.flavour && (w.selects(other) || other.selects(w)) {
				errs = append(errs, w.driver.source(w.part, "selector").errorf(
					"the selector matches pods of the %s part at %s", other.part,
					other.driver.source(other.part, "selector").position()))
			}
		}
	}
	return errors.Join(append(errs, checkPorts(workloads))...)
}

// checkRole reports an object with the role or the side of another controller: each kind has one
// writer, which reads the objects of one side.
func checkRole(asset *asset) error {
	role, side := bundle.Static, asset.Side
	switch asset.kind() {
	case "Deployment":
		role, side = bundle.ControllerWorkload, flavour.ControlPlane
	case "DaemonSet":
		role, side = bundle.NodeWorkload, flavour.Guest
	case "StorageClass":
		role, side = bundle.StorageClass, flavour.Guest
	case "VolumeSnapshotClass":
		role, side = bundle.SnapshotClass, flavour.Guest
	case "CSIDriver":
		role, side = bundle.CSIDriver, flavour.Guest
	case "ServiceMonitor":
		role, side = bundle.ServiceMonitor, flavour.ControlPlane
		if asset.Role == bundle.OperatorMonitor {
			role = bundle.OperatorMonitor
		}
	}
	if asset.Role != role || asset.Side != side {
		return position.ErrorAt(asset.at, "%q is a %s: its role is %q and its side %q, not %q and %q",
			asset.Name, asset.kind(), role, side, asset.Role, asset.Side)
	}
	return nil
}

// checkCSIDriver reports sidecars that a driver with a CSIDriver needs and does not have.
func (a *assembly) checkCSIDriver() error {
	var errs []error
	for _, asset := range a.assets {
		object, ok := asset.object.(*storagev1.CSIDriver)
		if !ok {
			continue
		}
		if a.driver.content.Node != nil && !a.uses(nodePart, "node-driver-registrar") {
			errs = append(errs, a.driver.source(nodePart).errorf("the node part has no sidecar "+
				`"node-driver-registrar": the kubelet would not register the driver`))
		}
		if ptr.Deref(object.Spec.AttachRequired, true) && !a.uses(controllerPart, "attacher") {
			errs = append(errs, asset.layers[0].Errorf("spec.attachRequired", "%q: attachRequired is "+
				`true, which is the default, but the controller part has no sidecar "attacher": no `+
				"volume would be attached", asset.Name))
		}
	}
	return errors.Join(errs...)
}

func (a *assembly) uses(part, sidecar string) bool {
	return slices.ContainsFunc(a.driver.content.part(part).Sidecars, func(use sidecarUse) bool {
		return use.Use == sidecar && a.has(use.Only)
	})
}

// define reports an object that is already defined. Unless hosted, both sides are one cluster.
func (a *assembly) define(asset *asset, defined map[string]position.Position) error {
	at := position.Position{File: a.driver.File, Line: 1}
	if asset.at.File == a.driver.File {
		at = asset.at
	}
	side := asset.Side
	if !a.flavour.Hosted() {
		side = ""
	}
	key := fmt.Sprintf("%s %s %s %s/%s", a.flavour, side, asset.kind(),
		asset.object.GetNamespace(), asset.object.GetName())
	if other, taken := defined[key]; taken {
		return position.ErrorAt(at, "%q is an object that %s also defines: "+
			"its name needs ${prefix} or ${clusterPrefix}", asset.Name, other)
	}
	defined[key] = at
	return nil
}

// selects reports whether a workload's selector matches the pods of another workload.
func (w workload) selects(other workload) bool {
	selector := labels.SelectorFromSet(w.driver.content.part(w.part).Selector)
	return selector.Matches(labels.Set(podTemplate(other.workload(other.part)).Labels))
}
