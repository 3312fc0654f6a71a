//go:build linux

package sharedfilesystems

import "github.com/openstack-csi/csi-operator/test/openstack/rest"

// quotaRequest is what a request adds to the use of the quota.
type quotaRequest struct {
	shares, snapshots            int
	gigabytes, snapshotGigabytes int
	// shareSize is the new size of one share, if it differs from gigabytes.
	shareSize int
}

// use returns what the project uses of its quota.
func (s *Service) use() Quota {
	var used Quota
	for _, share := range s.shares.List() {
		used.Shares++
		used.Gigabytes += max(share.Size, share.NewSize)
	}
	for _, snapshot := range s.snapshots.List() {
		used.Snapshots++
		used.SnapshotGigabytes += snapshot.Size
	}
	return used
}

// checkQuota returns the error 413 if a request exceeds the quota.
func (s *Service) checkQuota(wanted quotaRequest) error {
	quota, used := s.quota, s.use()
	size := max(wanted.shareSize, wanted.gigabytes)
	switch {
	case rest.Exceeds(quota.ShareGigabytes, 0, size):
		return rest.OverQuota("Requested share size %d is larger than maximum allowed limit %d.", size,
			quota.ShareGigabytes)
	case rest.Exceeds(quota.Gigabytes, used.Gigabytes, wanted.gigabytes):
		return rest.OverQuota(
			"Requested share exceeds allowed project/user or share type gigabytes quota.")
	case rest.Exceeds(quota.Shares, used.Shares, wanted.shares):
		return rest.OverQuota("Maximum number of shares allowed (%d) either per project/user or share "+
			"type quota is exceeded.", quota.Shares)
	case rest.Exceeds(quota.SnapshotGigabytes, used.SnapshotGigabytes, wanted.snapshotGigabytes):
		return rest.OverQuota(
			"Requested snapshot exceeds allowed project/user or share type gigabytes quota.")
	case rest.Exceeds(quota.Snapshots, used.Snapshots, wanted.snapshots):
		return rest.OverQuota("Maximum number of snapshots allowed (%d) either per project/user or "+
			"share type quota is exceeded.", quota.Snapshots)
	}
	return nil
}

// showLimits answers with the limits of the project; API reference: Limits.
func (s *Service) showLimits(*rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	quota, used := s.quota, s.use()
	return rest.Answer{Content: map[string]any{"limits": map[string]any{
		"rate": []any{},
		"absolute": map[string]int{
			"maxTotalShares": rest.Limit(quota.Shares), "totalSharesUsed": used.Shares,
			"maxTotalShareGigabytes":     rest.Limit(quota.Gigabytes),
			"totalShareGigabytesUsed":    used.Gigabytes,
			"maxTotalShareSnapshots":     rest.Limit(quota.Snapshots),
			"totalShareSnapshotsUsed":    used.Snapshots,
			"maxTotalSnapshotGigabytes":  rest.Limit(quota.SnapshotGigabytes),
			"totalSnapshotGigabytesUsed": used.SnapshotGigabytes,
			"maxTotalShareGroups":        -1, "totalShareGroupsUsed": 0,
			"maxTotalShareGroupSnapshots": -1, "totalShareGroupSnapshotsUsed": 0,
			"maxTotalShareReplicas": -1, "totalShareReplicasUsed": 0,
			"maxTotalReplicaGigabytes": -1, "totalReplicaGigabytesUsed": 0,
			"maxTotalShareNetworks": -1, "totalShareNetworksUsed": len(s.networks.List()),
		},
	}}}, nil
}
