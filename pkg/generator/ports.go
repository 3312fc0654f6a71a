package generator

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

type usedPort struct {
	number int
	use    string
	at     position.Position
}

func (a *assembly) usePort(part string, number int, use string, at position.Position) {
	a.ports[part] = append(a.ports[part], usedPort{number: number, use: use, at: at})
}

// openPorts returns the ports that driver.yaml allocates in a part, and those only in its layers.
func (w workload) openPorts() []usedPort {
	open := slices.Clone(w.ports[w.part])
	byName := w.driver.content.part(w.part).Ports.byName()
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		at := w.driver.source(w.part, "ports", name).position()
		open = append(open, usedPort{number: byName[name], use: name, at: at})
	}
	spec := podTemplate(w.workload(w.part)).Spec
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, port := range container.Ports {
			number := int(port.ContainerPort)
			same := func(p usedPort) bool { return p.number == number }
			if !slices.ContainsFunc(open, same) {
				use, at := fmt.Sprintf("container port %q", port.Name), w.driver.source(w.part, "workload")
				open = append(open, usedPort{number: number, use: use, at: at.position()})
			}
		}
	}
	return open
}

// checkPorts reports ports that are open twice in one network: that of a pod or, for all workloads
// that use it, that of a host.
func checkPorts(workloads []workload) error {
	first := map[string]usedPort{}
	var errs []error
	for _, w := range workloads {
		network, where := "host", "host"
		if !podTemplate(w.workload(w.part)).Spec.HostNetwork {
			network, where = w.driver.File+w.part, "pod"
		}
		for _, port := range w.openPorts() {
			key := fmt.Sprintf("%s %s %d", w.flavour, network, port.number)
			other, taken := first[key]
			if taken {
				errs = append(errs, position.ErrorAt(port.at, "%s port clash: %d (%s) is taken by %s at %s",
					where, port.number, port.use, other.use, other.at))
				continue
			}
			first[key] = port
		}
	}
	return errors.Join(errs...)
}
