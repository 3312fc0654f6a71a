package kubectl

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
)

// maxServers is how many servers `volumes` asks for.
const maxServers = 16

// useOf says whether somebody needs the data of a PersistentVolume, nil if there is none.
func useOf(v *corev1.PersistentVolume) string {
	switch {
	case v == nil:
		return orphanVolume
	case v.Status.Phase == corev1.VolumeBound, v.Status.Phase == corev1.VolumeAvailable,
		v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain:
		return usedVolume
	}
	return releasedVolume
}

// ailmentOf returns what is known about a volume or share of a driver. Its PersistentVolume may be
// nil.
func (s *session) ailmentOf(
	d *driver, id string, v *corev1.PersistentVolume, found stored, exists bool,
) *ailment {
	a := &ailment{stored: found, service: d.title, id: id, use: useOf(v)}
	if v != nil {
		a.pv = v.Name
	}
	if !found.changed.IsZero() {
		a.since = max(1, s.clock.Since(found.changed))
	}
	switch {
	case !exists:
		a.trouble = missing
	case len(found.attachments) == 0:
		a.state = serverNone
	}
	return a
}

// attach compares the servers of a volume with those of its VolumeAttachments, "" for one that is
// not known.
func (a *ailment) attach(servers []string) {
	for _, at := range a.attachments {
		if a.status == "in-use" && a.pv != "" && !slices.Contains(servers, "") &&
			!slices.Contains(servers, at.ServerID) {
			a.trouble, a.server, a.attachment = elsewhere, at.ServerID, at.ID
		}
	}
}

// leave says that the node of a VolumeAttachment does not exist any more.
func (a *ailment) leave(from *storagev1.VolumeAttachment) {
	a.va, a.node, a.server, a.attachment = from.Name, from.Spec.NodeName, serverOf(from), ""
	switch isDone := slices.Contains([]string{"", "in-use", "available"}, a.status); {
	case isDone && from.DeletionTimestamp != nil:
		a.trouble = leaving
	case isDone:
		a.trouble = nodeless
	}
	for _, at := range a.attachments {
		if at.ServerID == a.server {
			a.attachment = at.ID
		}
	}
	if a.state = ""; a.status != "" && a.attachment == "" && a.server != "" {
		a.state = serverNone
	}
}

// mute says that the node of a VolumeAttachment has not answered for some time.
func (a *ailment) mute(from *storagev1.VolumeAttachment, since time.Duration) {
	if a.trouble == "" && slices.Contains([]string{"", "in-use"}, a.status) {
		a.trouble, a.state, a.since = silent, "", since
		a.va, a.node, a.server = from.Name, from.Spec.NodeName, cmp.Or(serverOf(from), a.server)
	}
}

// reach logs in once. It returns why OpenStack cannot be asked, nil if it can be.
func (s *session) reach(ctx context.Context) []Link {
	if s.cloud.client != nil && s.cloud.refused == nil {
		return nil
	}
	if s.cloud.refused == nil {
		login, err := s.cloud.login(ctx)
		if s.err = cmp.Or(s.err, err); err == nil && login.State == OK {
			return nil
		}
		s.cloud.refused = []Link{also(login)}
	}
	return s.cloud.refused
}

// serverState returns the state of a server for statuses.txt, "" if it is not known.
func (c *cloud) serverState(ctx context.Context, id string) string {
	if c.client == nil || id == "" {
		return ""
	}
	status, exists, err := c.client.Server(ctx, id)
	switch {
	case err != nil:
		return ""
	case !exists:
		return serverGone
	}
	return map[string]string{"SHUTOFF": serverOff, "ACTIVE": serverRuns}[status]
}

// inOpenStack returns what OpenStack says about the volume of a PersistentVolume; nil without
// --clouds, or for other drivers, and links if OpenStack cannot be asked.
func (s *session) inOpenStack(ctx context.Context, v *corev1.PersistentVolume) (*ailment, []Link) {
	if v == nil || s.cloud.clouds == "" || source.Of(v) == nil {
		return nil, nil
	}
	id, d := source.Of(v).VolumeHandle, s.guest.findDriver(source.Of(v).Driver)
	if d == nil {
		return nil, nil
	}
	var servers []string
	for _, a := range s.attachmentsOf(ctx, v.Name) { // before OpenStack
		servers = append(servers, serverOf(&a))
	}
	if refused := s.reach(ctx); refused != nil {
		return nil, refused
	}
	found, exists, err := s.cloud.find(ctx, d.kind, id)
	if err != nil {
		return nil, []Link{also(failure(err))}
	}
	a := s.ailmentOf(d, id, v, found, exists)
	a.attach(servers)
	return a, nil
}

// find returns a volume or share, and whether it exists.
func (c *cloud) find(
	ctx context.Context, kind choice.Kind, id string,
) (found stored, exists bool, err error) {
	if kind == choice.Cinder {
		volume, exists, err := c.client.Volume(ctx, id)
		return storedVolume(volume), exists, err
	}
	requests, err := shares.New(ctx, c.client)
	if err != nil {
		return stored{}, false, err
	}
	share, exists, err := requests.Find(ctx, id)
	return stored{status: share.Status}, exists, err
}

// storedLinks says what is wrong with the volume of a PersistentVolume in OpenStack.
func (s *session) storedLinks(ctx context.Context, v *corev1.PersistentVolume) []Link {
	a, links := s.inOpenStack(ctx, v)
	if a == nil {
		return links
	}
	return s.told(ctx, a)
}

// told says what is wrong with what OpenStack stores, nil if nothing is.
func (s *session) told(ctx context.Context, a *ailment) []Link {
	if a.link() == nil {
		return nil
	}
	links, l := s.cloud.examine(ctx, []*ailment{a}), *a.link() // with the message
	if l.State != Problem {
		l.rank = meaning.Consequence // it may end itself
	}
	return append(links, l)
}

// createdLinks says what is wrong with what OpenStack has for a claim without a PersistentVolume.
func (f *claimFacts) createdLinks(ctx context.Context) []Link {
	if f.sys == nil || f.cloud.clouds == "" {
		return nil
	} else if refused := f.reach(ctx); refused != nil {
		return refused
	}
	all, err := f.cloud.list(ctx, f.sys.of, f.clusterID(ctx, f.sys.of), &contents{})
	if err != nil {
		return []Link{also(failure(err))}
	}
	for id, one := range all {
		if one.name == f.provisioning().names[fault.PV] {
			return f.told(ctx, f.ailmentOf(&f.sys.of, id, nil, one, true))
		}
	}
	return nil
}

// cloudLinks says what is wrong with the snapshot in OpenStack.
func (f *snapshotFacts) cloudLinks(ctx context.Context) []Link {
	if f.sys == nil || f.cloud.clouds == "" || f.content == nil {
		return nil
	}
	of := ptr.Deref(f.content.Spec.Source.VolumeHandle, "")
	if refused := f.reach(ctx); refused != nil {
		return refused
	} else if of == "" {
		return only(NotVisible, "the snapshot in OpenStack: VolumeSnapshotContent %s names no volume",
			f.content.Name)
	}
	service, _ := f.sys.of.service()
	all, err := f.cloud.client.Snapshots(ctx, service, of)
	if err != nil {
		return []Link{also(failure(err))}
	}
	found := openstack.Volume{ID: f.handle()}
	i := slices.IndexFunc(all, func(one openstack.Volume) bool {
		if found.ID == "" { // as csi-snapshotter names it
			return one.Name == "snapshot-"+string(f.content.Spec.VolumeSnapshotRef.UID)
		}
		return one.ID == found.ID
	})
	if i >= 0 {
		found = all[i]
	} else if found.ID == "" { // it was not created
		return nil
	}
	a := f.ailmentOf(&f.sys.of, found.ID, nil, storedVolume(found), i >= 0)
	a.service += " snapshot"
	if a.use = usedVolume; f.snapshot.DeletionTimestamp != nil || f.left {
		a.use = releasedVolume
	}
	return f.told(ctx, a)
}

// examine adds messages about what has failed, and the states of servers. It returns why something
// is not known.
func (c *cloud) examine(ctx context.Context, ailing []*ailment) (links []Link) {
	for title, service := range map[string]openstack.Service{
		"Cinder": openstack.Cinder(), "Manila": openstack.Manila(),
	} {
		ids := map[string]bool{}
		for _, a := range ailing {
			class, _, _ := a.row()
			if strings.HasPrefix(a.service, title) && class == classFailed && a.trouble == "" {
				ids[a.id] = true
			}
		}
		if len(ids) == 0 {
			continue
		}
		said, err := c.client.Messages(ctx, service, ids)
		if err != nil {
			links = append(links, linkf(NotVisible, "%v", err))
		}
		for _, a := range ailing {
			if strings.HasPrefix(a.service, title) {
				a.message = strings.Join(strings.Fields(said[a.id]), " ")
			}
		}
	}
	states := map[string]string{}
	for _, a := range ailing {
		if a.server == "" || a.state != "" {
			continue
		}
		if _, asked := states[a.server]; !asked && len(states) < maxServers {
			states[a.server] = c.serverState(ctx, a.server)
		}
		a.state = states[a.server]
	}
	return links
}
