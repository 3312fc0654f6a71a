package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// volumeFacts are objects by name, without their claims.
type volumeFacts struct {
	*session

	volumes map[string]*corev1.PersistentVolume
	// drivers are those of StorageClasses, and claimed the PersistentVolumes of listed claims.
	drivers map[string]string
	claimed map[string]bool
	// types are those of StorageClasses.
	types map[string]string
	// attached are the VolumeAttachments by PersistentVolume, and running the nodes of pods by claim.
	attached map[string][]*storagev1.VolumeAttachment
	running  map[client.ObjectKey][]string
	// nodes are all nodes with how long they have not answered, nil if they are not known.
	nodes map[string]time.Duration
}

func (s *session) volumeFacts(ctx context.Context, namespace string) *volumeFacts {
	f := &volumeFacts{
		session: s,
		volumes: map[string]*corev1.PersistentVolume{}, drivers: map[string]string{},
		types:   map[string]string{},
		claimed: map[string]bool{}, attached: map[string][]*storagev1.VolumeAttachment{},
		running: map[client.ObjectKey][]string{},
	}
	visit(ctx, s.guest, &corev1.PodList{}, func(pod *corev1.Pod) {
		if pod.Spec.NodeName == "" || hasEnded(pod) {
			return
		}
		for _, v := range pod.Spec.Volumes {
			if name := claimName(pod, v); name != "" {
				claim := client.ObjectKey{Namespace: pod.Namespace, Name: name}
				f.running[claim] = append(f.running[claim], pod.Spec.NodeName)
			}
		}
	}, client.InNamespace(namespace))
	for i := range s.attached {
		if name := s.attached[i].Spec.Source.PersistentVolumeName; name != nil {
			f.attached[*name] = append(f.attached[*name], &s.attached[i])
		}
	}
	if len(f.attached) > 0 {
		f.nodes = map[string]time.Duration{}
		visit(ctx, s.guest, &corev1.NodeList{}, func(n *corev1.Node) {
			f.nodes[n.Name] = s.silentFor(n)
		})
	}
	visit(ctx, s.guest, &corev1.PersistentVolumeList{}, func(v *corev1.PersistentVolume) {
		v.ManagedFields, v.Annotations, v.Spec.NodeAffinity = nil, nil, nil
		if v.Spec.CSI != nil {
			v.Spec.CSI.VolumeAttributes = nil
		}
		f.volumes[v.Name] = v
	})
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
	}
	for _, a := range f.attached[v.Name] {
		one.Nodes = append(one.Nodes, a.Spec.NodeName)
	}
	if v.DeletionTimestamp != nil {
		one.State = "Terminating"
	}
	return one
}

// ailment returns what is known about a volume of the list.
func (f *volumeFacts) ailment(one *Volume, found stored) *ailment {
	v := f.volumes[one.PersistentVolume]
	a := f.ailmentOf(f.guest.findDriver(one.Driver), one.ID, v, found, one.Cloud != missing)
	var servers []string
	for _, from := range f.attached[a.pv] {
		servers = append(servers, serverOf(from))
	}
	a.attach(servers)
	for _, from := range f.attached[a.pv] {
		switch since, exists := f.nodes[from.Spec.NodeName]; {
		case f.nodes == nil || f.guest.hidden["Nodes"]:
		case !exists:
			a.leave(from)
		case since > 0:
			a.mute(from, since)
		}
	}
	return a
}

// trouble says what is wrong with a volume of the list, and of which kind that is; nil if nothing.
func (f *volumeFacts) trouble(one *Volume) (kind string, l *Link) {
	if a := one.ailment; a != nil {
		_, says, steps := a.row()
		return a.service + a.node + says + steps, a.link()
	}
	v := f.volumes[one.PersistentVolume]
	if v == nil || one.Claim != "" || f.undeleted(v) == "" {
		return "", nil
	}
	return "undeleted", new(linkf(Warning, "%s", f.undeleted(v)))
}

// judge says what is wrong with volumes, with --clouds also in OpenStack. Volumes with the same
// trouble are one link, about the first of them.
func (l *Volumes) judge(ctx context.Context, c *cloud, f *volumeFacts) {
	var ailing []*ailment
	for i := range l.Volumes {
		one := &l.Volumes[i]
		if one.PersistentVolume != "" && !l.cloud {
			if one.ailment = f.ailment(one, stored{}); one.ailment.trouble == "" {
				one.ailment = nil
			}
		}
		if one.ailment != nil {
			ailing = append(ailing, one.ailment)
		}
	}
	if c.client != nil {
		l.Health = c.examine(ctx, ailing)
	}
	first, others := map[string]int{}, map[string][]string{}
	for i := range l.Volumes {
		one := &l.Volumes[i]
		kind, link := f.trouble(one)
		if link == nil {
			continue
		}
		one.Note = strings.TrimSuffix(link.Text+". "+link.Next, ". ")
		name := cmp.Or(one.PersistentVolume, one.ID)
		if _, known := first[kind]; known {
			others[kind] = append(others[kind], name)
			continue
		}
		first[kind] = len(l.Health)
		if one.PersistentVolume != "" {
			link.Text = name + ": " + link.Text
		}
		l.Health = append(l.Health, *link)
	}
	for kind, more := range others {
		l.Health[first[kind]].Text += "; the same for " + diagnosis.List(more)
	}
	slices.SortStableFunc(l.Health, func(a, b Link) int {
		order := []State{Problem, Warning, Progress, NotVisible}
		return slices.Index(order, a.State) - slices.Index(order, b.State)
	})
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
