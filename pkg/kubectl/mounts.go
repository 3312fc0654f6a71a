package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// attachmentLinks says why volumes are not attached to the node, if their drivers attach volumes.
func (f *podFacts) attachmentLinks(ctx context.Context) (links []Link) {
	for _, claim := range f.claims {
		if claim.volume != nil && claim.sys != nil &&
			slices.Contains(claim.sys.of.sidecars, diagnosis.Attacher) {
			links = append(links, claim.attachment(ctx, f.node, eventsAbout(claim.volume, f.events),
				f.pod.CreationTimestamp.Time)...)
		}
	}
	return links
}

// eventsAbout returns the events whose messages name a PersistentVolume.
func eventsAbout(volume *corev1.PersistentVolume, all []corev1.Event) []corev1.Event {
	return slices.DeleteFunc(slices.Clone(all), func(e corev1.Event) bool {
		return !isAbout(volume, e)
	})
}

func isAbout(volume *corev1.PersistentVolume, e corev1.Event) bool {
	return volume != nil && (strings.Contains(e.Message, `"`+volume.Name+`"`) ||
		strings.Contains(e.Message, "/"+volume.Name+"/")) // a path of its mount
}

// mountReasons are those of events about the volumes of a pod on its node.
func mountReasons() []string {
	return []string{
		"FailedMount", "FailedMapVolume", "FailedMountOnFilesystemMismatch", "AlreadyMountedVolume",
		"VolumePermissionChangeInProgress", "MultipleSELinuxLabels",
	}
}

// mountLinks says why volumes are not mounted.
func (f *podFacts) mountLinks(ctx context.Context) []Link {
	var own []Link
	for _, claim := range f.claims {
		w := f.onNode(fmt.Sprintf("volume %s of pvc/%s cannot be mounted on node %s", claim.handle(),
			claim.claim.Name, f.node))
		w.reasons, w.runbook, w.names = mountReasons(), runbookOperations, claim.sys.names(claim.handle())
		for _, l := range f.warnings(w, eventsAbout(claim.volume, f.events)) {
			own = append(own, f.nfs(claim, claim.recreated(ctx, l)))
		}
	}
	others := slices.DeleteFunc(slices.Clone(f.events), func(e corev1.Event) bool {
		return slices.ContainsFunc(f.claims, func(c *claimFacts) bool { return isAbout(c.volume, e) })
	})
	w := f.onNode("")
	w.reasons = mountReasons()
	named := map[string][]corev1.Event{}
	for _, e := range others {
		subject := f.subject(e)
		named[subject] = append(named[subject], e)
	}
	for _, subject := range slices.Sorted(maps.Keys(named)) {
		w.fails = subject + " cannot be mounted on node " + f.node
		own = append(own, f.warnings(w, named[subject])...)
	}
	for i, l := range own {
		if l.topic == meaning.SELinux {
			own[i] = f.labelled(ctx, l)
		}
	}
	return judge(own, func(meaning.Rank) []Link { return f.pluginLinks(ctx) })
}

func (f *podFacts) subject(e corev1.Event) string {
	names := fault.Parse(e.Message).Names
	about := strings.Fields(cmp.Or(names[fault.Volumes], names[fault.PV]))
	var all []string
	for _, v := range f.pod.Spec.Volumes {
		if !slices.Contains(about, v.Name) {
			continue
		}
		if claim := claimName(f.pod, v); claim != "" {
			all = append(all, "the volume of pvc/"+claim)
		} else {
			all = append(all, "volume "+v.Name)
		}
	}
	return cmp.Or(diagnosis.List(all), "a volume")
}

// labelled names the pod on the node that mounts a claim of the pod with another SELinux label.
func (f *podFacts) labelled(ctx context.Context, l Link) Link {
	for _, claim := range f.claims {
		for _, other := range claim.holders(ctx) {
			if other.Name == f.pod.Name || other.Spec.NodeName != f.node {
				continue
			}
			l.Text = fmt.Sprintf("pod %s on node %s mounts pvc/%s, too, and has another SELinux label",
				other.Name, f.node, claim.claim.Name)
			return l.then("Give both the same seLinuxOptions.level, or stop pod %s", other.Name)
		}
	}
	return l
}

// nfs says what a silent NFS server means: mounting takes longer than the kubelet waits.
func (f *podFacts) nfs(claim *claimFacts, l Link) Link {
	isKnown := l.topic == meaning.Network // the kernel did not wait for an answer
	if l.rank != meaning.Unreachable || isKnown || claim.sys == nil ||
		claim.sys.of.kind != choice.Manila {
		return l
	}
	l.Text = fmt.Sprintf("node %s has tried to mount share %s without an answer of the NFS server in "+
		"time", f.node, claim.handle())
	return l.then("Check that the node reaches the export location (TCP 2049): network, security " +
		"groups, access rules; all nodes: kubectl openstack-csi check --nodes")
}

// otherEvents returns the events of a pod that are about no volume and no node.
func (f *podFacts) otherEvents() (links []Link) {
	about := append(mountReasons(), "FailedAttachVolume", "FailedScheduling", "FailedCreate")
	w := f.onNode("node " + f.node)
	for _, l := range f.warnings(w, slices.DeleteFunc(slices.Clone(f.events),
		func(e corev1.Event) bool { return slices.Contains(about, e.Reason) })) {
		if f.started() {
			l = also(l)
		}
		links = append(links, l)
	}
	return links
}
