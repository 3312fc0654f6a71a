package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// neighbour is what a cluster contains of a CSI driver that another installation serves.
type neighbour struct {
	driver

	// served is the name of the CSI driver, registered its CSIDriver, nil for none.
	served     string
	registered *storagev1.CSIDriver
	workloads  []workload
	classes    []storagev1.StorageClass
	// volumes is the number of PersistentVolumes that name the driver, zoned of those that only nodes
	// of a zone can use.
	volumes, zoned int
	// claims are those of the volumes.
	claims []string
	// secrets are those that volumes, snapshots and classes name.
	secrets secretNames
}

// neighbours returns what other installations of the drivers there are. Those of Manila may serve
// a driver of another name: ours does not serve its volumes.
func (s *session) neighbours(ctx context.Context, all []workload) (links []Link) {
	served := false
	for _, d := range s.guest.drivers() {
		found := s.neighboursOf(ctx, d, all)
		for _, n := range found {
			served = served || n.exists()
			if n.served != d.name || len(n.workloads) == 0 {
				links = append(links, n.link(s.guest.hidden["PersistentVolumes"], nil))
				continue
			}
			v, err := s.valuesOf(ctx, found)
			cannot := n.refusal()
			if err != nil && !s.guest.hidden["Secrets"] && !s.guest.onOpenShift() {
				cannot = cmp.Or(errors.Unwrap(err), err)
			}
			links = append(links, n.link(s.guest.hidden["PersistentVolumes"], cannot))
			links = append(links, s.details(n)...)
			switch {
			case err != nil && cannot == nil:
				links = append(links, linkf(NotVisible, "the values for it: %v", err))
			case err == nil && len(v.About()) > 0:
				links = append(links, linkf(Warning, "check --values has remarks about %s",
					diagnosis.List(v.About())))
			}
		}
	}
	if !served && !s.guest.hidden["CSIDrivers"] {
		links = append(links, linkf(OK, "no other installation contains a driver"))
	}
	return links
}

// neighboursOf returns the installations of a driver, in the order of the names that they serve.
func (s *session) neighboursOf(ctx context.Context, d driver, all []workload) []*neighbour {
	found := map[string]*neighbour{}
	of := func(name string) *neighbour {
		if found[name] == nil {
			found[name] = &neighbour{driver: d, served: name}
		}
		return found[name]
	}
	for _, one := range list[storagev1.CSIDriverList](ctx, s.guest).Items {
		if d.isVariant(one.Name) {
			of(one.Name).registered = &one
		}
	}
	for _, w := range all {
		for _, name := range d.servedBy(w) {
			of(name).workloads = append(of(name).workloads, w)
		}
	}
	visit(ctx, s.guest, &corev1.PersistentVolumeList{}, func(v *corev1.PersistentVolume) {
		if name := driverOf(v); found[name] != nil || d.isVariant(name) {
			of(name).addVolume(v)
		}
	})
	for _, class := range list[storagev1.StorageClassList](ctx, s.guest).Items {
		if n := found[class.Provisioner]; n != nil {
			n.classes = append(n.classes, class)
			n.secrets.addFrom(class.Parameters, "csi.storage.k8s.io/")
		}
	}
	for _, c := range list[snapshotv1.VolumeSnapshotContentList](ctx, s.guest).Items {
		if n := found[c.Spec.Driver]; n != nil {
			n.secrets.addFrom(c.Annotations, "snapshot.storage.kubernetes.io/")
		}
	}
	for _, class := range list[snapshotv1.VolumeSnapshotClassList](ctx, s.guest).Items {
		if n := found[class.Driver]; n != nil {
			n.secrets.addFrom(class.Parameters, "csi.storage.k8s.io/")
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *neighbour) int {
		return strings.Compare(a.served, b.served)
	})
}

func (n *neighbour) addVolume(v *corev1.PersistentVolume) {
	n.volumes++
	if ref := v.Spec.ClaimRef; ref != nil {
		n.claims = append(n.claims, ref.Namespace+"/"+ref.Name)
	}
	n.secrets.addVolume(v)
	if affinity := v.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		key := "topology." + n.defaultName() + "/zone"
		inZone := func(e corev1.NodeSelectorRequirement) bool { return e.Key == key }
		if slices.ContainsFunc(affinity.Required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
			return slices.ContainsFunc(t.MatchExpressions, inZone)
		}) {
			n.zoned++
		}
	}
}

// exists returns whether a driver runs, or one of a name that is not ours is registered. Our
// operator takes over a CSIDriver that is left.
func (n *neighbour) exists() bool {
	return n.registered != nil && n.served != n.name || len(n.workloads) > 0
}

// defaultName returns the name that the program of the driver has without an argument.
func (d driver) defaultName() string { return strings.ToLower(d.title) + ".csi.openstack.org" }

// isVariant returns whether a name is that of the driver, or of one for a protocol.
func (d driver) isVariant(name string) bool {
	return strings.HasSuffix("."+name, "."+d.defaultName())
}

// servedBy returns the names of the drivers that the containers of a workload serve.
func (d driver) servedBy(w workload) (names []string) {
	for _, c := range w.pod.Containers {
		command := commandOf(c)
		if !strings.Contains(command, d.program()) {
			continue
		}
		name := append(arguments(command, "drivername"), d.defaultName())[0]
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (d driver) program() string { return strings.ToLower(d.title) + "-csi-plugin" }

// commandOf returns the image and the command of a container, with the values of its variables.
func commandOf(c corev1.Container) string {
	command := strings.Join(slices.Concat([]string{c.Image}, c.Command, c.Args), " ")
	for _, variable := range c.Env {
		command = strings.ReplaceAll(command, "$("+variable.Name+")", variable.Value)
	}
	return command
}

// arguments returns the values of a flag in a command, "true" for one without a value.
func arguments(command, flag string) (values []string) {
	pattern := regexp.MustCompile(`\s--?` + flag + `(=| )"?([^\s"-][^\s"]*)?`)
	for _, found := range pattern.FindAllStringSubmatch(command+" ", -1) {
		if value := found[2]; value != "" || found[1] == "=" {
			values = append(values, value)
		} else {
			values = append(values, "true")
		}
	}
	return values
}

func (n *neighbour) arguments(flag string) (values []string) {
	for _, w := range n.workloads {
		for _, c := range w.pod.Containers {
			values = append(values, arguments(commandOf(c), flag)...)
		}
	}
	return values
}

// clusterID returns the ID that marks volumes in OpenStack, "" for none.
func (n *neighbour) clusterID() string {
	return cmp.Or(append(n.arguments("cluster"), n.arguments("cluster-id")...)...)
}

// String names what installed the objects, and the objects.
func (n *neighbour) String() string {
	var names []string
	if n.registered != nil {
		names = []string{"CSIDriver " + n.served}
	}
	for _, w := range n.workloads {
		names = append(names, w.name)
		if release := w.release(); release != "" && !slices.Contains(names, release) {
			names = slices.Insert(names, 0, release)
		}
	}
	return strings.Join(names, ", ")
}

// link returns what to do with another installation, or with volumes of an earlier one. Cannot is
// why ours cannot replace it.
func (n *neighbour) link(hidden bool, cannot error) Link {
	use := fmt.Sprintf("PersistentVolumes that name it: %d", n.volumes)
	if n.zoned > 0 {
		use += fmt.Sprintf(", of which %d are for nodes of a zone", n.zoned)
	}
	if hidden {
		use = "PersistentVolumes that name it are not visible"
	}
	text := fmt.Sprintf("another installation serves driver %s: ", n.served)
	switch {
	case !n.exists() && n.served == n.name:
		l := linkf(OK, "driver %s will serve the PersistentVolumes that name it: %d. Until then their "+
			"volumes cannot be mounted or deleted. Claims: %s", n.served, n.volumes,
			cmp.Or(diagnosis.List(n.claims), "none"))
		if len(n.secrets) > 0 {
			l = l.then("They name Secret %s, which must exist, also if you install the driver in "+
				"another namespace", strings.Join(n.secrets, ", "))
		}
		return l
	case !n.exists():
		return linkf(Warning, "nothing serves driver %s. %s. The driver to install is %s and does not "+
			"serve them", n.served, use, n.name)
	case n.served == n.name:
		name, _, _ := strings.Cut(strings.TrimPrefix(n.String(), "CSIDriver "+n.served+", "), ", ")
		l := linkf(Problem, "%s%s", text, name)
		if cannot != nil {
			l = l.then("It cannot move: %v", cannot)
		} else {
			first := "Run"
			if by := n.gitOps(); by.name != "" {
				first = "First suspend " + by.String() + ", which applies it. Then run"
			}
			l = l.then("%s: kubectl openstack-csi check --values >values.yaml, and follow %s", first,
				version.Page("docs/from-charts.md"))
		}
		l.Detail = fmt.Sprintf("%s. %s. Two of the same name would disturb each other", n, use)
		return l
	case n.volumes == 0 && !hidden:
		return linkf(OK, "%s%s. No PersistentVolume names it, so you may remove it", text, n)
	}
	return linkf(Warning, "%s%s. %s. Keep that installation while there is such a PersistentVolume: "+
		"the driver to install is %s and does not serve them", text, n, use, n.name)
}
