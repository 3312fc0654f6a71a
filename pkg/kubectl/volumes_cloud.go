package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
)

// sharedID is the cluster ID of the charts of cloud-provider-openstack, the same in all clusters.
const sharedID = "kubernetes"

// stored is a volume, a share or a snapshot. It is ours if the driver of this cluster created it.
// The server is the last one that it is attached to, and changed the time of its last change, zero
// in Manila.
type stored struct {
	name, status, server, attachment string

	attachments []openstack.Attachment
	changed     time.Time
	gibibytes   int
	ours        bool
}

// storedVolume returns a volume of Cinder or a snapshot, without its metadata.
func storedVolume(v openstack.Volume) stored {
	one := stored{
		name: v.Name, status: v.Status, gibibytes: v.Size, attachments: v.Attachments,
		changed: v.Changed(),
	}
	for _, a := range v.Attachments {
		one.server, one.attachment = a.ServerID, a.ID
	}
	return one
}

// contents are what OpenStack stores for each driver, by ID, at a time.
type contents struct {
	at     time.Time
	of     map[string]map[string]stored
	shares *shares.Requests
}

func errSharedID(d driver) error {
	return fmt.Errorf("the cluster ID of %s is %s, as in other clusters, so their volumes cannot be "+
		"told apart. Choose an ID: docs/kubernetes.md", d.title, sharedID)
}

// contents lists what OpenStack stores; nil without the flag --clouds.
func (v *volumeList) contents(ctx context.Context, s *session) (*contents, error) {
	if v.clouds == "" {
		return nil, nil
	}
	found := &contents{at: s.clock.Now(), of: map[string]map[string]stored{}}
	ids := map[string]string{}
	for _, d := range s.guest.drivers() {
		if ids[d.name] = s.clusterID(ctx, d); ids[d.name] == sharedID {
			return nil, errSharedID(d)
		}
	}
	login, err := v.login(ctx)
	if err == nil && login.State != OK {
		err = errors.New(login.Text)
	}
	if err = errors.Join(s.failed(), err); err != nil {
		return nil, err
	}
	fmt.Fprintln(s.Err, wrap("", login.Text, 0))
	for _, d := range s.guest.drivers() {
		if ids[d.name] == "" {
			continue // the driver is not installed
		}
		if found.of[d.name], err = v.list(ctx, d, ids[d.name], found); err != nil {
			return nil, errors.New(failure(err).Text)
		}
	}
	return found, nil
}

// list returns what OpenStack stores for a driver, by ID.
func (c *cloud) list(
	ctx context.Context, d driver, cluster string, in *contents,
) (map[string]stored, error) {
	all := map[string]stored{}
	if d.kind == choice.Cinder {
		key := d.name + "/cluster"
		return all, c.client.Volumes(ctx, func(one openstack.Volume) {
			found := storedVolume(one)
			found.ours = one.Metadata[key] == cluster
			all[one.ID] = found
		})
	}
	var err error
	if in.shares, err = shares.New(ctx, c.client); err != nil {
		return nil, err
	}
	listed, err := in.shares.List(ctx, shares.ClusterKey, cluster)
	for _, one := range listed {
		all[one.ID] = stored{name: one.Name, status: one.Status, gibibytes: one.Size, ours: true}
	}
	return all, err
}

// clusterID returns the ID that marks what a driver creates in OpenStack, "" if there is no driver.
func (s *session) clusterID(ctx context.Context, d driver) string {
	if find(ctx, s.guest, d.namespace, d.nodes[0], &appsv1.DaemonSet{}) == nil {
		return ""
	}
	infrastructure := &configv1.Infrastructure{}
	find(ctx, s.guest, "", "cluster", infrastructure)
	return cmp.Or(s.guest.ids[d.name], guest.InfrastructureID(infrastructure))
}

// compare adds the states in OpenStack, and with everything of the cluster also what only OpenStack
// contains.
func (l *Volumes) compare(
	ctx context.Context, in *contents, facts *volumeFacts, everything bool,
) error {
	known := map[string]bool{}
	for _, v := range facts.volumes {
		if served := source.Of(v); served != nil {
			known[served.Driver+"/"+served.VolumeHandle] = true
		}
	}
	for i := range l.Volumes {
		one := &l.Volumes[i]
		all, listed := in.of[one.Driver]
		if one.ID == "" || !listed ||
			facts.volumes[one.PersistentVolume].CreationTimestamp.After(in.at) {
			continue // a driver has created it meanwhile
		}
		found, exists := all[one.ID]
		if !exists && in.shares != nil && facts.guest.findDriver(one.Driver).kind == choice.Manila {
			share, isThere, err := in.shares.Find(ctx, one.ID) // it may have another ID of a cluster
			if err != nil {
				return err
			}
			found, exists = stored{status: share.Status}, isThere
		}
		if one.Cloud = found.status; !exists {
			one.Cloud, one.Orphan = missing, one.State != "Terminating"
		}
		if a := facts.ailment(one, found); (exists || one.Orphan) && a.link() != nil {
			one.ailment = a
		}
	}
	for driver, all := range in.of {
		for id, one := range all {
			if !everything || !one.ours || known[driver+"/"+id] {
				continue
			}
			orphan := Volume{
				ID: id, Driver: driver, Cloud: one.status, State: "no PersistentVolume", Orphan: true,
				Name: one.name, Server: one.server, Size: fmt.Sprintf("%dGi", one.gibibytes),
			}
			// Manila has states such as creating_from_snapshot.
			passing := strings.HasPrefix(one.status, "creating") || one.status == "deleting"
			a := facts.ailment(&orphan, one)
			if a.link() != nil {
				orphan.ailment = a
			}
			if !passing || a.since >= lasts {
				l.Volumes = append(l.Volumes, orphan)
			}
		}
	}
	return nil
}

// isElsewhere returns whether OpenStack contains none of several volumes, as in another project.
func (l *Volumes) isElsewhere() bool {
	compared := slices.DeleteFunc(slices.Clone(l.Volumes), func(v Volume) bool {
		return v.PersistentVolume == "" || v.Cloud == ""
	})
	return len(compared) > 1 && !slices.ContainsFunc(compared, func(v Volume) bool {
		return v.Cloud != missing
	})
}
