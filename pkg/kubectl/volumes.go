package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Volumes are the volumes of the drivers. Its JSON is the output of `volumes -o json`.
type Volumes struct {
	Volumes    []Volume `json:"volumes"`
	NotVisible []string `json:"notVisible,omitempty"`
	// Health says what is wrong with volumes: a link for each kind of trouble.
	Health []Link `json:"health,omitempty"`
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
	// Note says what is wrong with the volume, and what to do.
	Note string `json:"note,omitempty"`

	// ailment is nil if nothing is wrong with it in OpenStack.
	ailment *ailment
}

const volumesCommand = "volumes"

type volumeList struct {
	cloud

	all      bool
	selector string
	// access means to read the access rules of each share.
	access bool
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
	cmd.Flags().BoolVar(&v.access, "access", false,
		"With --clouds, read the access rules of each share, which is a request for each.")
	return cmd
}

func (v *volumeList) run(ctx context.Context, s *session, _ []string) error {
	if v.access && v.clouds == "" {
		return usage("--access needs --clouds clouds.yaml")
	}
	selector, err := labels.Parse(v.selector)
	if err != nil {
		return usage("--selector: %v", err)
	}
	const percent = 50
	debug.SetGCPercent(percent)   // 10,000 objects of each kind pass through the memory
	_ = s.attachments(ctx)        // before OpenStack, which is asked whether they are so
	in, err := v.contents(ctx, s) // before PersistentVolumes, which drivers create later
	if err != nil {
		return err
	}
	namespace := s.namespace
	if v.all {
		namespace = ""
	}
	facts := s.volumeFacts(ctx, namespace)
	result := &Volumes{
		Volumes: []Volume{}, wide: s.output == wideOutput, all: v.all, cloud: in != nil,
	}
	visit(ctx, s.guest, &corev1.PersistentVolumeClaimList{}, func(c *corev1.PersistentVolumeClaim) {
		result.take(facts.claim(c))
	}, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	if s.failed() != nil {
		return s.failed()
	}
	everything := v.all && selector.Empty()
	for name, one := range facts.volumes {
		if everything && !facts.claimed[name] {
			result.take(facts.volume(one))
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
	result.judge(ctx, &v.cloud, facts)
	if v.access && in != nil {
		result.Health = append(result.Health, result.openShares(ctx, s, in)...)
	}
	result.NotVisible = s.notVisible()
	return s.show("Volumes", result, slices.ContainsFunc(result.Volumes, func(one Volume) bool {
		return one.Orphan
	}) || slices.ContainsFunc(result.Health, func(l Link) bool { return l.State == Problem }))
}

func (l *Volumes) take(one *Volume) {
	if one != nil {
		l.Volumes = append(l.Volumes, *one)
	}
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
	for _, one := range slices.Concat(l.Health, l.Quotas) {
		p.link(out, one)
	}
	writeNotVisible(out, l.NotVisible)
}
