package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/openstack-csi/csi-operator/assets"
	"github.com/openstack-csi/csi-operator/pkg/charts"
)

// printValues prints values of our chart for an installation of others, or for a file with values
// of theirs. If it refuses, it prints nothing.
func (c *check) printValues(ctx context.Context, s *session) error {
	v, err := charts.New()
	if c.file != "" && err == nil {
		var text []byte
		if text, err = c.read(s.In); err != nil {
			return usageError{err}
		}
		err = v.AddFile(text)
		for _, fields := range v.Objects {
			text := "If a program applies it, end that first, or its driver starts beside ours"
			if by := ownerIn(&unstructured.Unstructured{Object: fields}); by.name != "" {
				text = by.applies()
			}
			v.Remark("the file", "%s", text)
		}
	} else if err == nil {
		v, err = s.valuesOf(ctx, s.replaceable(ctx))
	}
	if err != nil {
		return err
	}
	text, err := v.YAML()
	if err != nil {
		return err
	}
	for _, remark := range v.Remarks() {
		fmt.Fprintln(s.Err, wrap("! ", remark, len("! ")))
	}
	_, err = s.Out.Write(text)
	return err
}

// replaceable returns the installations of other charts.
func (s *session) replaceable(ctx context.Context) (found []*neighbour) {
	all := s.workloadsOfOthers(ctx)
	for _, d := range s.guest.drivers() {
		found = append(found, s.neighboursOf(ctx, d, all)...)
	}
	return slices.DeleteFunc(found, func(n *neighbour) bool { return len(n.workloads) == 0 })
}

// valuesOf returns values for installations, or why they cannot be replaced.
func (s *session) valuesOf(ctx context.Context, found []*neighbour) (*charts.Values, error) {
	v, err := charts.New()
	if err != nil {
		return nil, err
	}
	serves := func(d driver) bool {
		return slices.ContainsFunc(found, func(n *neighbour) bool { return n.served == d.name })
	}
	for _, n := range found {
		if n.served != n.name && serves(n.driver) {
			continue // the chart of Manila serves several protocols
		}
		if err := s.cannotMove(ctx, n, found); err != nil {
			return nil, fmt.Errorf("%s: %w", n.title, err)
		}
		if err := s.addTo(ctx, v, n); err != nil {
			return nil, fmt.Errorf("%s: %w", n.title, err)
		}
	}
	switch {
	case s.guest.onOpenShift():
		err = errors.New("this is OpenShift, where our chart does not install the drivers")
	case len(found) == 0:
		err = errors.New("no workload serves a driver that values could be printed for")
	}
	return v, errors.Join(err, s.failed())
}

// cannotMove returns why nothing of ours can replace an installation, which is one of those found.
func (s *session) cannotMove(ctx context.Context, n *neighbour, found []*neighbour) error {
	return cmp.Or(n.refusal(), n.others(found), s.restored(ctx, n))
}

// refusal returns what of the installation itself nothing of ours can replace.
func (n *neighbour) refusal() error {
	names, namespaces := map[bool][]string{}, map[string]bool{}
	for _, w := range n.workloads {
		names[w.isNode()] = append(names[w.isNode()], w.name)
		namespaces[w.GetNamespace()] = true
		if err := w.refusal(); err != nil { // who restores it knows where the rest is
			return err
		}
	}
	switch {
	case n.served != n.name && strings.HasPrefix(n.served, "cephfs."):
		return errors.New("it serves only CephFS, which no driver here does: keep this installation. " +
			"For a release beside it: helm get values NAME | kubectl openstack-csi check --values -f -")
	case n.served != n.name:
		return fmt.Errorf("the driver has the name %s, and PersistentVolumes keep it, but ours is %s: "+
			"keep this installation", n.served, n.name)
	case len(names[true]) > 1 || len(names[false]) > 1 || len(namespaces) > 1:
		return fmt.Errorf("several installations serve driver %s: %s. Remove all but one first", n.served,
			strings.Join(append(names[true], names[false]...), ", "))
	case len(names[true]) == 0 || len(names[false]) == 0 || n.registered == nil:
		return fmt.Errorf("there is only a part of an installation. If the rest runs outside the "+
			"cluster, as in a hosted control plane, keep it. If not, install its chart, or apply its "+
			"manifests, again, so that the node plugins, the controller and CSIDriver %s exist. There "+
			"is %s", n.served, n)
	}
	return n.refusalOfVersion()
}

// refusal returns why another program would restore the workload.
func (w workload) refusal() error {
	for mark := range labels.Merge(w.GetLabels(), w.GetAnnotations()) {
		if strings.HasPrefix(mark, "resources.gardener.cloud/") { // others are for everybody
			return fmt.Errorf("Gardener manages %s, and would restore it: keep its drivers", w.name)
		}
	}
	manager := w.GetLabels()["app.kubernetes.io/managed-by"]
	if owner := metav1.GetControllerOf(w); owner != nil {
		manager = owner.Kind + " " + owner.Name
	}
	if manager != "" && manager != "Helm" {
		return fmt.Errorf("%s manages %s, and would restore it: remove the driver there first", manager,
			w.name)
	}
	return nil
}

// oldestDriver is the oldest driver whose volumes ours is known to serve.
const oldestDriver = "1.26"

// refusalOfVersion compares the version of the driver with ours.
func (n *neighbour) refusalOfVersion() error {
	title := strings.ToLower(n.title)
	text, err := fs.ReadFile(assets.Installations(),
		"drivers/"+title+"/generated/kubernetes/operator/deployment.yaml")
	if err != nil {
		return err
	}
	ours, oldest := versionIn(string(text), n.program()), version.MustParseGeneric(oldestDriver)
	for _, w := range n.workloads {
		for _, c := range w.pod.Containers {
			switch theirs := versionIn(c.Image, n.program()); {
			case ours.LessThan(theirs):
				return fmt.Errorf("%s runs the driver v%s, which is newer than ours, v%s: use a later release",
					w.name, theirs, ours)
			case theirs.Major() > 0 && theirs.LessThan(oldest):
				return fmt.Errorf("%s runs the driver v%s: first upgrade its chart to v%s or later", w.name,
					theirs, oldest)
			}
		}
	}
	return nil
}

// versionIn returns the version of the image of a program in a text, 0.0 for an unknown one.
func versionIn(text, program string) *version.Version {
	found := regexp.MustCompile(program + `:v?(\d+\.\d+)`).FindStringSubmatch(text)
	return version.MustParseGeneric(append(found, "0.0", "0.0")[1])
}
