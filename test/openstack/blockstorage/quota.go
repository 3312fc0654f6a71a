//go:build linux

package blockstorage

import (
	"slices"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// quotaRequest is what a request adds to the use of the quota.
type quotaRequest struct {
	volumes, snapshots, backups int
	gigabytes, backupGigabytes  int
	// volumeSize is the new size of one volume, if it differs from gigabytes.
	volumeSize int
}

// use returns what the project uses of its quota.
func (s *Service) use() Quota {
	var used Quota
	for _, volume := range s.volumes.List() {
		used.Volumes++
		used.Gigabytes += max(volume.Size, volume.NewSize)
	}
	for _, snapshot := range s.snapshots.List() {
		used.Snapshots++
		used.Gigabytes += snapshot.Size
	}
	for _, backup := range s.backups.List() {
		used.Backups++
		used.BackupGigabytes += backup.Size
	}
	return used
}

// checkQuota returns the error 413 if a request exceeds the quota. Cinder names the gigabytes if a
// request exceeds both, the gigabytes and the number.
func (s *Service) checkQuota(wanted quotaRequest) error {
	quota, used := s.quota, s.use()
	size := max(wanted.volumeSize, wanted.gigabytes)
	switch {
	case wanted.snapshots == 0 && rest.Exceeds(quota.VolumeGigabytes, 0, size):
		return rest.OverQuota("Requested volume size %dG is larger than maximum allowed limit %dG.", size,
			quota.VolumeGigabytes)
	case rest.Exceeds(quota.Gigabytes, used.Gigabytes, wanted.gigabytes):
		return rest.OverQuota("Requested volume or snapshot exceeds allowed gigabytes quota. Requested "+
			"%dG, quota is %dG and %dG has been consumed.", wanted.gigabytes, quota.Gigabytes,
			used.Gigabytes)
	case rest.Exceeds(quota.BackupGigabytes, used.BackupGigabytes, wanted.backupGigabytes):
		return rest.OverQuota("Requested backup exceeds allowed Backup gigabytes quota. Requested %dG, "+
			"quota is %dG and %dG has been consumed.", wanted.backupGigabytes, quota.BackupGigabytes,
			used.BackupGigabytes)
	case rest.Exceeds(quota.Volumes, used.Volumes, wanted.volumes):
		return rest.OverQuota("Maximum number of volumes allowed (%d) exceeded for quota 'volumes'.",
			quota.Volumes)
	case rest.Exceeds(quota.Snapshots, used.Snapshots, wanted.snapshots):
		return rest.OverQuota("Maximum number of snapshots allowed (%d) exceeded", quota.Snapshots)
	case rest.Exceeds(quota.Backups, used.Backups, wanted.backups):
		return rest.OverQuota("Maximum number of backups allowed (%d) exceeded", quota.Backups)
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
			"maxTotalVolumes": rest.Limit(quota.Volumes), "totalVolumesUsed": used.Volumes,
			"maxTotalSnapshots": rest.Limit(quota.Snapshots), "totalSnapshotsUsed": used.Snapshots,
			"maxTotalVolumeGigabytes": rest.Limit(quota.Gigabytes), "totalGigabytesUsed": used.Gigabytes,
			"maxTotalBackups": rest.Limit(quota.Backups), "totalBackupsUsed": used.Backups,
			"maxTotalBackupGigabytes":  rest.Limit(quota.BackupGigabytes),
			"totalBackupGigabytesUsed": used.BackupGigabytes,
		},
	}}}, nil
}

// showQuota answers with the quota of the project, with the use if the query asks for it; API
// reference: Quota sets extension.
func (s *Service) showQuota(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	quota, used := s.quota, s.use()
	set := map[string]any{"id": r.PathValue("project")}
	for name, numbers := range map[string][2]int{
		"volumes": {quota.Volumes, used.Volumes}, "snapshots": {quota.Snapshots, used.Snapshots},
		"gigabytes": {quota.Gigabytes, used.Gigabytes}, "backups": {quota.Backups, used.Backups},
		"backup_gigabytes":     {quota.BackupGigabytes, used.BackupGigabytes},
		"per_volume_gigabytes": {quota.VolumeGigabytes, 0}, "groups": {0, 0},
	} {
		set[name] = rest.Limit(numbers[0])
		if slices.Contains([]string{"true", "True", "1"}, r.URL.Query().Get("usage")) {
			set[name] = map[string]int{"limit": rest.Limit(numbers[0]), "in_use": numbers[1], "reserved": 0}
		}
	}
	return rest.Answer{Content: map[string]any{"quota_set": set}}, nil
}
