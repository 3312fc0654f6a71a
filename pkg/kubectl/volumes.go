package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

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
	// Quotas say what OpenStack has left, and who uses it.
	Quotas []Link `json:"quotas,omitempty"`

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
	// Name is that in OpenStack, and Server the ID of the server to which the volume is attached
	// there. Both are set only for orphans.
	Name   string `json:"name,omitempty"`
	Server string `json:"server,omitempty"`
	// Note says that the volume of a deleted claim is not deleted, and what to do.
	Note string `json:"note,omitempty"`
}

const volumesCommand = "volumes"

type volumeList struct {
	cloud

	all      bool
	selector string
}

func newVolumesCommand(o *options) *cobra.Command {
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
		RunE: o.run(v.run),
	}
	o.addOutputTo(cmd)
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
	claims := list[corev1.PersistentVolumeClaimList](ctx, s.guest, client.InNamespace(namespace),
		client.MatchingLabelsSelector{Selector: selector}).Items
	facts := s.volumeFacts(ctx, namespace)
	if s.failed() != nil {
		return s.failed()
	}
	result := &Volumes{
		Volumes: []Volume{}, wide: s.output == wideOutput, all: v.all, cloud: in != nil,
	}
	for i := range claims {
		result.add(facts.claim(&claims[i]))
	}
	everything := v.all && selector.Empty()
	for name, one := range facts.volumes {
		if orphan := facts.volume(one); everything && !facts.claimed[name] && orphan != nil {
			orphan.Note = s.undeleted(one)
			result.add(orphan)
		}
	}
	if in != nil {
		if s.guest.hidden["PersistentVolumes"] {
			return errors.New("PersistentVolumes are not visible, so nothing can be compared with OpenStack")
		}
		if err := result.compare(ctx, in, facts, everything); err != nil {
			return err
		}
		if result.isElsewhere() {
			fmt.Fprintf(s.Err, "OpenStack contains no volume of this list. Is %s that of the project of "+
				"this cluster?\n", printable(v.clouds))
		}
		result.Quotas = v.quotaLinks(ctx, result, in, facts)
	}
	slices.SortFunc(result.Volumes, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim),
			cmp.Compare(a.PersistentVolume, b.PersistentVolume), cmp.Compare(a.ID, b.ID))
	})
	result.NotVisible = s.notVisible()
	return s.show("Volumes", result, slices.ContainsFunc(result.Volumes, func(one Volume) bool {
		return one.Orphan
	}))
}

func (l *Volumes) add(one *Volume) {
	if one != nil {
		l.Volumes = append(l.Volumes, *one)
	}
}

// volumeFacts are objects by name, without their claims.
type volumeFacts struct {
	*session

	volumes map[string]*corev1.PersistentVolume
	// drivers are those of StorageClasses, and claimed the PersistentVolumes of listed claims.
	drivers map[string]string
	claimed map[string]bool
	// types are those of StorageClasses.
	types map[string]string
	// attached are the nodes of VolumeAttachments by PersistentVolume, and running those of pods by
	// claim.
	attached map[string][]string
	running  map[client.ObjectKey][]string
}

func (s *session) volumeFacts(ctx context.Context, namespace string) *volumeFacts {
	f := &volumeFacts{
		session: s,
		volumes: map[string]*corev1.PersistentVolume{}, drivers: map[string]string{},
		types:   map[string]string{},
		claimed: map[string]bool{}, attached: map[string][]string{},
		running: map[client.ObjectKey][]string{},
	}
	for _, pod := range list[corev1.PodList](ctx, s.guest, client.InNamespace(namespace)).Items {
		if pod.Spec.NodeName == "" || hasEnded(&pod) {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			claim := client.ObjectKey{Namespace: pod.Namespace, Name: claimName(&pod, v)}
			f.running[claim] = append(f.running[claim], pod.Spec.NodeName)
		}
	}
	for _, a := range s.attachments(ctx) {
		name := ptr.Deref(a.Spec.Source.PersistentVolumeName, "")
		f.attached[name] = append(f.attached[name], a.Spec.NodeName)
	}
	for _, v := range list[corev1.PersistentVolumeList](ctx, s.guest).Items {
		f.volumes[v.Name] = &v
	}
	for _, class := range list[storagev1.StorageClassList](ctx, s.guest).Items {
		f.drivers[class.Name], f.types[class.Name] = class.Provisioner, class.Parameters["type"]
	}
	return f
}

// claim returns a claim of a driver, and nil for others.
func (f *volumeFacts) claim(claim *corev1.PersistentVolumeClaim) *Volume {
	one := &Volume{Driver: f.drivers[ptr.Deref(claim.Spec.StorageClassName, "")]}
	if v := f.volumes[claim.Spec.VolumeName]; v != nil && (v.Spec.ClaimRef == nil ||
		v.Spec.ClaimRef.Namespace == claim.Namespace && v.Spec.ClaimRef.Name == claim.Name) {
		one = cmp.Or(f.volume(v), one)
		f.claimed[v.Name] = true
	}
	if f.guest.findDriver(one.Driver) == nil {
		return nil
	}
	one.Namespace, one.Claim = claim.Namespace, claim.Name
	one.Class = ptr.Deref(claim.Spec.StorageClassName, "")
	one.Size = cmp.Or(one.Size, claim.Spec.Resources.Requests.Storage().String())
	one.State = string(claim.Status.Phase)
	if claim.DeletionTimestamp != nil {
		one.State = "Terminating"
	}
	one.Nodes = append(one.Nodes, f.running[client.ObjectKeyFromObject(claim)]...)
	slices.Sort(one.Nodes)
	one.Nodes = slices.Compact(one.Nodes)
	return one
}

// volume returns a PersistentVolume of a driver, and nil for others.
func (f *volumeFacts) volume(v *corev1.PersistentVolume) *Volume {
	served := source.Of(v)
	if served == nil || f.guest.findDriver(served.Driver) == nil {
		return nil
	}
	one := &Volume{
		PersistentVolume: v.Name, ID: served.VolumeHandle, Size: v.Spec.Capacity.Storage().String(),
		State: string(v.Status.Phase), Driver: served.Driver, Class: v.Spec.StorageClassName,
		Nodes: slices.Clone(f.attached[v.Name]),
	}
	if v.DeletionTimestamp != nil {
		one.State = "Terminating"
	}
	return one
}

// deletionGrace is how long the deletion of a volume may take.
const deletionGrace = 5 * time.Minute

// undeleted says that the deletion of the volume of a PersistentVolume fails, or takes long; "" if
// it does not.
func (s *session) undeleted(v *corev1.PersistentVolume) string {
	since := ptr.Deref(v.Status.LastPhaseTransitionTime, v.CreationTimestamp).Time
	isDue := v.Status.Phase == corev1.VolumeReleased && s.clock.Since(since) > deletionGrace &&
		v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	if !isDue && v.Status.Phase != corev1.VolumeFailed {
		return ""
	}
	return fmt.Sprintf("its claim is gone, but its volume has not been deleted for %s. Run: "+
		"kubectl openstack-csi why pv/%s", s.age(since), v.Name)
}

// write prints a table as kubectl does.
func (l *Volumes) write(out io.Writer, p palette) {
	columns := []struct {
		title string
		shown bool
		of    func(Volume) string
	}{
		{"NAMESPACE", l.all, func(v Volume) string { return v.Namespace }},
		{"CLAIM", true, func(v Volume) string { return v.Claim }},
		{"VOLUME", true, func(v Volume) string { return v.PersistentVolume }},
		{"ID", true, func(v Volume) string { return v.ID }},
		{"SIZE", true, func(v Volume) string { return v.Size }},
		{"NODE", true, func(v Volume) string { return strings.Join(v.Nodes, ",") }},
		{"STATE", true, func(v Volume) string { return v.State }},
		{"CLOUD", l.cloud, func(v Volume) string { return v.Cloud }},
		{"NAME", l.cloud && l.all, func(v Volume) string { return v.Name }},
		{"SERVER", l.cloud && l.all, func(v Volume) string { return v.Server }},
		{"DRIVER", l.wide, func(v Volume) string { return v.Driver }},
		{"CLASS", l.wide, func(v Volume) string { return v.Class }},
	}
	rows := make([][]string, 1+len(l.Volumes))
	for _, c := range columns {
		if !c.shown {
			continue
		}
		rows[0] = append(rows[0], c.title)
		for i, v := range l.Volumes {
			rows[i+1] = append(rows[i+1], cmp.Or(c.of(v), "-"))
		}
	}
	if writeTable(out, rows); len(l.Volumes) == 0 {
		fmt.Fprintln(out, "No volumes found")
	}
	for _, v := range l.Volumes {
		if v.Note != "" {
			fmt.Fprintln(out, wrap("", v.PersistentVolume+": "+v.Note, 0))
		}
	}
	for _, one := range l.Quotas {
		p.link(out, one)
	}
	writeNotVisible(out, l.NotVisible)
}
