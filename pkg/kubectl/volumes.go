package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
)

// Volumes are the volumes of the drivers. Its JSON is the output of `volumes -o json`.
type Volumes struct {
	Volumes    []Volume `json:"volumes"`
	NotVisible []string `json:"notVisible,omitempty"`

	wide, all, cloud bool
}

// Volume is a claim with its PersistentVolume, or one of both.
type Volume struct {
	Namespace string `json:"namespace,omitempty"`
	Claim     string `json:"claim,omitempty"`
	// PersistentVolume is its name, and ID that of the volume or share in OpenStack.
	PersistentVolume string `json:"persistentVolume,omitempty"`
	ID               string `json:"id,omitempty"`
	Size             string `json:"size,omitempty"`
	// Nodes are those that the volume is attached to, or those of the pods that use it.
	Nodes  []string `json:"nodes,omitempty"`
	State  string   `json:"state"`
	Driver string   `json:"driver"`
	Class  string   `json:"storageClass,omitempty"`
	// Cloud is the status in OpenStack, or "missing".
	Cloud string `json:"cloud,omitempty"`
	// Orphan is true if only one of PersistentVolume and volume in OpenStack exists.
	Orphan bool `json:"orphan,omitempty"`
}

// volumesCommand is the name of the command `volumes`.
const volumesCommand = "volumes"

// volumeList is the command `volumes`.
type volumeList struct {
	cloud

	all      bool
	selector string
}

func newVolumesCommand(o *options, streams Streams) *cobra.Command {
	v := &volumeList{}
	cmd := &cobra.Command{
		Use:     volumesCommand,
		Aliases: []string{"volume"},
		Short:   "List claims with their volumes in OpenStack, and with --clouds what is orphaned",
		Long: "List claims with their volumes in OpenStack. With --clouds also their status there, and " +
			"what exists only there or only here. The ClusterRole openstack-csi-viewer is enough.",
		Example: "  kubectl openstack-csi volumes -A -o wide\n" +
			"  kubectl openstack-csi volumes -A --clouds clouds.yaml",
		Args: atMost(0),
		RunE: o.run(streams, v.run),
	}
	o.addOutputTo(cmd.Flags())
	v.addTo(cmd)
	cmd.Flags().BoolVarP(&v.all, "all-namespaces", "A", false, "List claims of all namespaces.")
	cmd.Flags().StringVarP(&v.selector, "selector", "l", "", "Labels of the claims.")
	return cmd
}

func (v *volumeList) run(ctx context.Context, s *session, _ []string) error {
	selector, err := labels.Parse(v.selector)
	if err != nil {
		return usage("--selector: %v", err)
	}
	in, err := v.contents(ctx, s) // before PersistentVolumes, which drivers create later
	if err != nil {
		return err
	}
	namespace := s.namespace
	if v.all {
		namespace = ""
	}
	facts := s.volumeFacts(ctx, namespace, selector)
	if s.failed() != nil {
		return s.failed()
	}
	list := &Volumes{
		Volumes: []Volume{}, wide: s.output == wideOutput, all: v.all, cloud: in != nil,
	}
	everything := v.all && selector.Empty()
	for i := range facts.claims.Items {
		list.add(facts.claim(&facts.claims.Items[i]))
	}
	for name, one := range facts.byName {
		if everything && !facts.claimed[name] {
			list.add(facts.volume(one))
		}
	}
	if in != nil {
		if s.guest.hidden["PersistentVolumes"] {
			return errors.New("PersistentVolumes are not visible, so nothing can be compared with OpenStack")
		}
		if err := list.compare(ctx, in, facts, everything); err != nil {
			return err
		}
		if list.isElsewhere() {
			fmt.Fprintf(s.Err, "OpenStack contains no volume of this list. Is %s that of the project of "+
				"this cluster?\n", printable(v.clouds))
		}
	}
	slices.SortFunc(list.Volumes, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim),
			cmp.Compare(a.PersistentVolume, b.PersistentVolume), cmp.Compare(a.ID, b.ID))
	})
	list.NotVisible = s.notVisible()
	if err := s.print("Volumes", list, list.write); err != nil {
		return err
	}
	if slices.ContainsFunc(list.Volumes, func(one Volume) bool { return one.Orphan }) {
		return errProblem
	}
	return nil
}

func (l *Volumes) add(one *Volume) {
	if one != nil {
		l.Volumes = append(l.Volumes, *one)
	}
}

// volumeFacts are the objects about volumes.
type volumeFacts struct {
	claims      corev1.PersistentVolumeClaimList
	pods        corev1.PodList
	volumes     corev1.PersistentVolumeList
	attachments storagev1.VolumeAttachmentList
	// byName are the PersistentVolumes, drivers those of StorageClasses, and claimed PersistentVolumes
	// that are listed.
	byName  map[string]*corev1.PersistentVolume
	drivers map[string]string
	claimed map[string]bool
}

func (s *session) volumeFacts(
	ctx context.Context, namespace string, selector labels.Selector,
) *volumeFacts {
	f := &volumeFacts{
		byName: map[string]*corev1.PersistentVolume{}, drivers: map[string]string{},
		claimed: map[string]bool{},
	}
	var classes storagev1.StorageClassList
	s.guest.read(ctx, &f.claims, client.InNamespace(namespace),
		client.MatchingLabelsSelector{Selector: selector})
	s.guest.read(ctx, &f.pods, client.InNamespace(namespace))
	s.guest.read(ctx, &f.volumes)
	s.guest.read(ctx, &f.attachments)
	s.guest.read(ctx, &classes)
	for i := range f.volumes.Items {
		f.byName[f.volumes.Items[i].Name] = &f.volumes.Items[i]
	}
	for _, class := range classes.Items {
		f.drivers[class.Name] = class.Provisioner
	}
	return f
}

// claim returns a claim of a driver, and nil for others.
func (f *volumeFacts) claim(claim *corev1.PersistentVolumeClaim) *Volume {
	one := &Volume{Driver: f.drivers[ptr.Deref(claim.Spec.StorageClassName, "")]}
	if v := f.byName[claim.Spec.VolumeName]; v != nil && (v.Spec.ClaimRef == nil ||
		v.Spec.ClaimRef.Namespace == claim.Namespace && v.Spec.ClaimRef.Name == claim.Name) {
		one = cmp.Or(f.volume(v), one)
		f.claimed[v.Name] = true
	}
	if findDriver(one.Driver) == nil {
		return nil
	}
	one.Namespace, one.Claim = claim.Namespace, claim.Name
	one.Class = ptr.Deref(claim.Spec.StorageClassName, "")
	one.Size = cmp.Or(one.Size, claim.Spec.Resources.Requests.Storage().String())
	one.State = string(claim.Status.Phase)
	if claim.DeletionTimestamp != nil {
		one.State = "Terminating"
	}
	for i := range f.pods.Items {
		if pod := &f.pods.Items[i]; pod.Spec.NodeName != "" && uses(pod, claim) {
			one.Nodes = append(one.Nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(one.Nodes)
	one.Nodes = slices.Compact(one.Nodes)
	return one
}

// volume returns a PersistentVolume of a driver, and nil for others.
func (f *volumeFacts) volume(v *corev1.PersistentVolume) *Volume {
	served := source.Of(v)
	if served == nil || findDriver(served.Driver) == nil {
		return nil
	}
	one := &Volume{
		PersistentVolume: v.Name, ID: served.VolumeHandle, Size: v.Spec.Capacity.Storage().String(),
		State: string(v.Status.Phase), Driver: served.Driver, Class: v.Spec.StorageClassName,
	}
	if v.DeletionTimestamp != nil {
		one.State = "Terminating"
	}
	for _, a := range f.attachments.Items {
		if ptr.Deref(a.Spec.Source.PersistentVolumeName, "") == v.Name {
			one.Nodes = append(one.Nodes, a.Spec.NodeName)
		}
	}
	return one
}

// write prints a table as kubectl does.
func (l *Volumes) write(out io.Writer, _ palette) {
	row := func(namespace, cloud string, always []string, wide ...string) []string {
		var cells []string
		if l.all {
			cells = append(cells, namespace)
		}
		cells = append(cells, always...)
		if l.cloud {
			cells = append(cells, cloud)
		}
		if l.wide {
			cells = append(cells, wide...)
		}
		return cells
	}
	rows := [][]string{row("NAMESPACE", "CLOUD",
		[]string{"CLAIM", "VOLUME", "ID", "SIZE", "NODE", "STATE"}, "DRIVER", "CLASS")}
	for _, v := range l.Volumes {
		rows = append(rows, row(v.Namespace, v.Cloud, []string{
			v.Claim, v.PersistentVolume, v.ID, v.Size, strings.Join(v.Nodes, ","), v.State,
		}, v.Driver, v.Class))
	}
	for _, cells := range rows {
		for i := range cells {
			cells[i] = cmp.Or(cells[i], "-")
		}
	}
	if writeTable(out, rows); len(l.Volumes) == 0 {
		fmt.Fprintln(out, "No volumes found")
	}
	writeNotVisible(out, l.NotVisible)
}
