package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// neighbour is what a cluster contains of a CSI driver before the installation.
type neighbour struct {
	// objects serve the driver, volumes is the number of PersistentVolumes that name it.
	objects []string
	volumes int
}

// neighbours returns what other installations of the drivers there are. Those of Manila may serve
// a driver of another name: ours does not serve its volumes.
func (s *session) neighbours(ctx context.Context, all []workload) (links []Link) {
	registered := list[storagev1.CSIDriverList](ctx, s.guest).Items
	volumes := list[corev1.PersistentVolumeList](ctx, s.guest).Items
	served := false
	for _, d := range s.guest.drivers() {
		found := map[string]neighbour{}
		for _, one := range registered {
			if d.isVariant(one.Name) {
				found[one.Name] = neighbour{objects: []string{"CSIDriver " + one.Name}}
			}
		}
		for _, w := range all {
			for _, name := range d.servedBy(w) {
				found[name] = neighbour{objects: append(found[name].objects, w.name+w.release)}
			}
		}
		for i := range volumes {
			name := driverOf(&volumes[i])
			if before, known := found[name]; known || d.isVariant(name) {
				found[name] = neighbour{before.objects, before.volumes + 1}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			served = served || len(found[name].objects) > 0
			links = append(links, found[name].link(d, name, s.guest.hidden["PersistentVolumes"]))
		}
	}
	if !served && !s.guest.hidden["CSIDrivers"] {
		links = append(links, linkf(OK, "no other installation contains a driver"))
	}
	return links
}

// defaultName returns the name that the program of the driver has without an argument.
func (d driver) defaultName() string { return strings.ToLower(d.title) + ".csi.openstack.org" }

// isVariant returns whether a name is that of the driver, or of one for a protocol.
func (d driver) isVariant(name string) bool {
	return strings.HasSuffix("."+name, "."+d.defaultName())
}

var driverNameArgument = regexp.MustCompile(`--drivername[= ]"?([^\s"$]+)`)

// servedBy returns the names of the drivers that the containers of a workload serve.
func (d driver) servedBy(w workload) (names []string) {
	for _, c := range w.pod.Containers {
		command := strings.Join(append(append([]string{c.Image}, c.Command...), c.Args...), " ")
		if !strings.Contains(command, strings.ToLower(d.title)+"-csi-plugin") {
			continue
		}
		name := d.defaultName()
		if m := driverNameArgument.FindStringSubmatch(command); m != nil {
			name = m[1]
		}
		for _, variable := range c.Env {
			if variable.Name == "DRIVER_NAME" {
				name = cmp.Or(variable.Value, name)
			}
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// link returns what to do with another installation, or with volumes of an earlier one.
func (n neighbour) link(d driver, name string, hidden bool) Link {
	use := fmt.Sprintf("PersistentVolumes that name it: %d", n.volumes)
	if hidden {
		use = "PersistentVolumes that name it are not visible"
	}
	text := fmt.Sprintf("another installation serves driver %s: %s", name,
		strings.Join(n.objects, ", "))
	switch {
	case len(n.objects) == 0 && name == d.name:
		return linkf(OK, "driver %s will serve the PersistentVolumes that name it: %d", name, n.volumes)
	case len(n.objects) == 0:
		return linkf(Warning, "nothing serves driver %s. %s. The driver to install is %s and does not "+
			"serve them", name, use, d.name)
	case name == d.name:
		return linkf(Problem, "%s. %s. Two of the same name would disturb each other", text, use).
			then("Keep its PersistentVolumes and the Secrets that they name, remove it, and install " +
				"at once: until then no other pod can mount them")
	case n.volumes == 0 && !hidden:
		return linkf(OK, "%s. No PersistentVolume names it, so you may remove it", text)
	}
	return linkf(Warning, "%s. %s. Keep that installation while there is such a PersistentVolume: "+
		"the driver to install is %s and does not serve them", text, use, d.name)
}
