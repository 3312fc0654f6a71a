package sharedfilesystems

import (
	"github.com/openstack-csi/csi-operator/test/openstack/quota"
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// The resources with a limit that shares and snapshots use.
const (
	gigabytes         = "gigabytes"
	shares            = "shares"
	snapshots         = "snapshots"
	snapshotGigabytes = "snapshot_gigabytes"
	perShare          = "per_share_gigabytes"
)

// owner is whose limits apply: the project, the user, or a share type.
type owner struct {
	shareType string
	user      bool
}

// SetQuotas sets limits, and leaves the others as they are.
func (s *Service) SetQuotas(limits ...quota.Limit) {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	s.limits.Set(limits...)
}

// use returns what an owner uses of a resource. All shares belong to one user.
func (s *Service) use(resource string, of owner) (use quota.Use) {
	types := map[string]string{}
	s.shares.Each(func(share *Share) {
		types[share.ID] = share.TypeName
		switch {
		case of.shareType != "" && of.shareType != share.TypeName:
		case resource == shares:
			use.Add(1, 0)
		case resource == gigabytes:
			use.Add(share.Size, share.Growth)
		}
	})
	s.snapshots.Each(func(one *Snapshot) {
		switch {
		case of.shareType != "" && of.shareType != types[one.ShareID]:
		case resource == snapshots:
			use.Add(1, 0)
		case resource == snapshotGigabytes:
			use.Add(one.Size, 0)
		}
	})
	if of == (owner{}) {
		use = use.With(s.limits.Of(resource, "", false))
	}
	return use
}

// exceeds returns whether more of a resource exceeds a limit of the project, the user or the share
// type.
func (s *Service) exceeds(resource, shareType string, more int) bool {
	for _, of := range []owner{{}, {user: true}, {shareType: shareType}} {
		if s.limits.Of(resource, of.shareType, of.user).Exceeds(s.use(resource, of), more) {
			return true
		}
	}
	return false
}

// checkQuotas returns the error of a share that grows to a size, and may be a new one.
func (s *Service) checkQuotas(shareType string, count, growth, size int) error {
	most := s.limits.Of(perShare, "", false)
	switch {
	case most.Exceeds(quota.Use{}, size):
		return rest.OverQuota("ShareSizeExceedsLimit: Requested share size %d is larger than maximum "+
			"allowed limit %d.", size, most.Limit)
	case s.exceeds(gigabytes, shareType, growth):
		return rest.OverQuota("ShareSizeExceedsAvailableQuota: Requested share exceeds allowed " +
			"project/user or share type gigabytes quota.")
	case s.exceeds(shares, shareType, count):
		return rest.OverQuota("ShareLimitExceeded: Maximum number of shares allowed (%d) either per "+
			"project/user or share type quota is exceeded.", s.limits.Of(shares, shareType, false).Limit)
	}
	return nil
}

// checkSnapshotQuotas returns the error of a new snapshot.
func (s *Service) checkSnapshotQuotas(share *Share) error {
	switch {
	case s.exceeds(snapshotGigabytes, share.TypeName, share.Size):
		return rest.OverQuota("SnapshotSizeExceedsAvailableQuota: Requested snapshot exceeds allowed " +
			"project/user or share type gigabytes quota.")
	case s.exceeds(snapshots, share.TypeName, 1):
		return rest.OverQuota("SnapshotLimitExceeded: Maximum number of snapshots allowed (%d) either "+
			"per project/user or share type quota is exceeded.",
			s.limits.Of(snapshots, share.TypeName, false).Limit)
	}
	return nil
}

// showLimits answers with the limits and the use of the project; API reference: List share limits.
func (s *Service) showLimits(r *rest.Request) (rest.Answer, error) {
	absolute := map[string]any{}
	add := func(resource, limit, used string) {
		absolute[limit] = s.limits.Of(resource, "", false).Limit
		absolute[used] = s.use(resource, owner{}).InUse
	}
	add(shares, "maxTotalShares", "totalSharesUsed")
	add(gigabytes, "maxTotalShareGigabytes", "totalShareGigabytesUsed")
	add(snapshots, "maxTotalShareSnapshots", "totalShareSnapshotsUsed")
	add(snapshotGigabytes, "maxTotalSnapshotGigabytes", "totalSnapshotGigabytesUsed")
	add("share_networks", "maxTotalShareNetworks", "totalShareNetworksUsed")
	if r.Version.AtLeast(53) {
		add("share_replicas", "maxTotalShareReplicas", "totalShareReplicasUsed")
		add("replica_gigabytes", "maxTotalReplicaGigabytes", "totalReplicaGigabytesUsed")
	}
	if r.Version.AtLeast(58) {
		add("share_groups", "maxTotalShareGroups", "totalShareGroupsUsed")
		add("share_group_snapshots", "maxTotalShareGroupSnapshots", "totalShareGroupSnapshotsUsed")
	}
	return rest.Answer{Content: map[string]any{
		"limits": map[string]any{"rate": []any{}, "absolute": absolute},
	}}, nil
}

// showQuotas answers with limits, and in detail also with the use; API reference: Show quota set.
func (s *Service) showQuotas(detail bool) rest.Handler {
	return func(r *rest.Request) (rest.Answer, error) {
		of, err := s.ownerOf(r, detail)
		if err != nil {
			return rest.Answer{}, err
		}
		set := map[string]any{"id": r.ProjectID}
		for _, resource := range resourcesOf(r, of) {
			l := s.limits.Of(resource, of.shareType, of.user)
			set[resource] = l.Limit
			if detail {
				set[resource] = l.Describe(s.use(resource, of))
			}
		}
		return rest.Answer{Content: map[string]any{"quota_set": set}}, nil
	}
}

// ownerOf returns whose quotas a request asks for, or the error with which Manila answers.
func (s *Service) ownerOf(r *rest.Request, detail bool) (owner, error) {
	query := r.URL.Query()
	typeName, user := query.Get("share_type"), query.Get("user_id")
	found, exists := s.findType(typeName)
	switch {
	case !r.Version.AtLeast(7) || detail && !r.Version.AtLeast(25):
		return owner{}, rest.NotFound("")
	case typeName != "" && !r.Version.AtLeast(39):
		return owner{}, rest.BadRequest("'share_type' key is not supported by this microversion. Use " +
			"2.39 or greater microversion to be able to use 'share_type' quotas.")
	case r.PathValue("id") != r.ProjectID:
		return owner{}, rest.Forbidden("Access was denied to this resource.")
	case typeName != "" && !exists:
		return owner{}, rest.NotFound("Share type with name or id '%s' not found.", typeName)
	case typeName != "" && user != "":
		return owner{}, rest.BadRequest("'user_id' and 'share_type' values are mutually exclusive")
	case typeName != "":
		return owner{shareType: found.Name}, nil
	}
	return owner{user: user != ""}, nil
}

func resourcesOf(r *rest.Request, of owner) []string {
	names := []string{shares, gigabytes, snapshots, snapshotGigabytes}
	if of.shareType == "" {
		names = append(names, "share_networks")
		if r.Version.AtLeast(40) {
			names = append(names, "share_groups", "share_group_snapshots")
		}
	}
	if r.Version.AtLeast(53) {
		names = append(names, "share_replicas", "replica_gigabytes")
	}
	if r.Version.AtLeast(62) {
		names = append(names, perShare)
	}
	return names
}
