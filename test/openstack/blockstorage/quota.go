package blockstorage

import (
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/quota"
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// The resources with a limit. The first three also exist for each volume type.
const (
	gigabytes = "gigabytes"
	snapshots = "snapshots"
	volumes   = "volumes"
	perVolume = "per_volume_gigabytes"
)

// SetQuotas sets limits of the project, and leaves the others as they are.
func (s *Service) SetQuotas(limits ...quota.Limit) {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	s.limits.Set(limits...)
}

// uses returns the use of each resource.
func (s *Service) uses() map[string]quota.Use {
	all := map[string]*quota.Use{}
	add := func(resource, typeName string, inUse, reserved int) {
		for _, name := range []string{resource, resource + "_" + typeName} {
			if all[name] == nil {
				all[name] = &quota.Use{}
			}
			all[name].Add(inUse, reserved)
		}
	}
	types := map[string]string{}
	s.volumes.Each(func(v *Volume) {
		types[v.ID] = v.Type
		add(volumes, v.Type, 1, 0)
		add(gigabytes, v.Type, v.Size, v.Growth)
	})
	s.snapshots.Each(func(one *Snapshot) {
		add(snapshots, types[one.VolumeID], 1, 0)
		add(gigabytes, types[one.VolumeID], one.Size, 0)
	})
	used := map[string]quota.Use{}
	for name, use := range all {
		used[name] = *use
	}
	for _, l := range s.limits {
		used[l.Resource] = used[l.Resource].With(l)
	}
	return used
}

// exceeded returns the first of several resources that more would exceed, as Cinder sorts them, and
// its limit; "" if there is none.
func (s *Service) exceeded(typeName string, more map[string]int) (string, quota.Limit) {
	uses := s.uses()
	for _, resource := range []string{gigabytes, snapshots, volumes} {
		for _, name := range []string{resource, resource + "_" + typeName} {
			if l := s.limits.Of(name, "", false); l.Exceeds(uses[name], more[resource]) {
				return name, l
			}
		}
	}
	return "", quota.Limit{}
}

// checkQuotas returns the error of a volume that grows to a size, and may be a new one.
func (s *Service) checkQuotas(typeName string, count, growth, size int) error {
	most := s.limits.Of(perVolume, "", false)
	if most.Exceeds(quota.Use{}, size) {
		return rest.OverQuota("VolumeSizeExceedsLimit: Requested volume size %dG is larger than "+
			"maximum allowed limit %dG.", size, most.Limit)
	}
	name, l := s.exceeded(typeName, map[string]int{volumes: count, gigabytes: growth})
	switch {
	case name == "":
		return nil
	case strings.HasPrefix(name, gigabytes):
		return s.tooLarge(name, growth, l)
	}
	return rest.OverQuota("VolumeLimitExceeded: Maximum number of volumes allowed (%d) exceeded for "+
		"quota '%s'.", l.Limit, name)
}

// checkSnapshotQuotas returns the error of a new snapshot, whose size counts like that of a volume.
func (s *Service) checkSnapshotQuotas(volume *Volume) error {
	name, l := s.exceeded(volume.Type, map[string]int{snapshots: 1, gigabytes: volume.Size})
	switch {
	case name == "":
		return nil
	case strings.HasPrefix(name, gigabytes):
		return s.tooLarge(name, volume.Size, l)
	}
	return rest.OverQuota("SnapshotLimitExceeded: Maximum number of snapshots allowed (%d) exceeded",
		l.Limit)
}

func (s *Service) tooLarge(name string, size int, l quota.Limit) error {
	return rest.OverQuota("VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds "+
		"allowed %s quota. Requested %dG, quota is %dG and %dG has been consumed.", name, size, l.Limit,
		s.uses()[name].Total())
}

// showQuotas answers with the limits, and with usage=true also with the use; API reference: Show
// quotas for a project.
func (s *Service) showQuotas(r *rest.Request) (rest.Answer, error) {
	if r.PathValue("id") != r.ProjectID {
		return rest.Answer{}, rest.Forbidden("Policy doesn't allow volume_extension:quotas:show to be " +
			"performed.")
	}
	names := []string{perVolume, "groups", "backups", "backup_gigabytes"}
	for _, resource := range []string{gigabytes, snapshots, volumes} {
		names = append(names, resource, resource+"_"+defaultType)
	}
	for _, l := range s.limits {
		names = append(names, l.Resource)
	}
	set, uses := map[string]any{"id": r.ProjectID}, s.uses()
	for _, name := range names {
		l := s.limits.Of(name, "", false)
		set[name] = l.Limit
		if strings.EqualFold(r.URL.Query().Get("usage"), "true") {
			set[name] = l.Describe(uses[name])
		}
	}
	return rest.Answer{Content: map[string]any{"quota_set": set}}, nil
}
