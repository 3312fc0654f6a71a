package kubectl

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	volumesnapshots "github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/snapshots"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	sharesnapshots "github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/snapshots"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// with adds objects, with other words in place of some.
func (s *scenario) with(t *testing.T, objects string, words ...string) *scenario {
	t.Helper()
	var more scenario
	text := "objects:\n" + strings.NewReplacer(words...).Replace(objects)
	assert.NilError(t, yaml.Unmarshal([]byte(text), &more))
	s.Objects = append(s.Objects, more.Objects...)
	return s
}

const pending = `
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, uid: u1,
    creationTimestamp: '2026-11-24T11:50:00Z',
    annotations: {volume.kubernetes.io/selected-node: worker-1}},
    spec: {accessModes: [ReadWriteMany], storageClassName: CLASS,
      resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}
- {apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e}, type: Warning,
    lastTimestamp: '2026-11-24T11:59:00Z', reason: ProvisioningFailed,
    involvedObject: {kind: PersistentVolumeClaim, namespace: shop, name: data, uid: u1},
    message: 'rpc error: code = Internal desc = MESSAGE'}
`

// What `volumes` says about a volume or share, `why` says about the claim that it is for.
func TestWhyKnowsWhatAClaimHasInOpenStack(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
	manila, err := administrator.Shares(t.Context(), cloud.CloudsYAML(simulator.Clouds{}))
	assert.NilError(t, err)
	share, err := administrator.CreateShare(t.Context(), manila, shares.CreateOpts{
		ShareProto: "NFS", Size: 1, Name: "pvc-u1",
		Metadata: map[string]string{"manila.csi.openstack.org/cluster": "c1"},
	})
	assert.NilError(t, err)
	cinder, err := openstack.NewBlockStorageV3(manila.ProviderClient, gophercloud.EndpointOpts{})
	assert.NilError(t, err)
	volume, err := volumes.Create(t.Context(), cinder, volumes.CreateOpts{
		Size: 1, Name: "pvc-u1", Metadata: map[string]string{"cinder.csi.openstack.org/cluster": "c1"},
	}, nil).Extract()
	assert.NilError(t, err)
	for _, of := range []struct {
		service   simulator.Service
		id, class string
	}{{simulator.Share, share, "csi-manila-default"}, {simulator.Volume, volume.ID, "standard-csi"}} {
		for _, status := range []string{"error", "error_deleting"} {
			assert.NilError(t, cloud.SetStatus(of.service, of.id, status))
			s := marked(t, "c1", nil).with(t, pending, "CLASS", of.class, "MESSAGE", "it failed")
			_, stdout, _ := run(t, s.later(t), false, "volumes", "-A", "--clouds="+clouds)
			listed := strings.Join(strings.Fields(stdout), " ")
			said := regexp.MustCompile("(share|volume) " + of.id + " .*? in OpenStack").FindString(listed)
			assert.Assert(t, is.Contains(said, "openstack "), listed)
			code, stdout, stderr := run(t, s.later(t), false, "why", "pvc/data", "-n=shop",
				"--clouds="+clouds)
			got := strings.Join(strings.Fields(stdout), " ")
			for part := range strings.SplitSeq(said, " status error") {
				assert.Check(t, is.Contains(got, strings.TrimSpace(part)), stderr)
			}
			assert.Check(t, is.Equal(code, exitFailed))
		}
	}
	_, stdout, _ := run(t, marked(t, "c1", nil).with(t, pending, "CLASS", "csi-manila-default",
		"MESSAGE", "failed to create volume pvc-u1: share "+share+` is in error state "error": create: `+
			"An unknown error occurred.").options(t), false, "why", "pvc/data", "-n=shop")
	assert.Check(t, is.Contains(strings.Join(strings.Fields(stdout), " "), "with the ID of the "+
		"share; then yours: if nobody needs its data, openstack share delete "+share+
		", and the driver creates it again"))
}

const ofClaim = `
- {apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {namespace: shop,
    name: s1, uid: u1, creationTimestamp: '2026-11-24T11:50:00Z', DELETED
    finalizers: [snapshot.storage.kubernetes.io/volumesnapshot-bound-protection]},
    spec: {source: {persistentVolumeClaimName: CLAIM}, volumeSnapshotClassName: snaps},
    status: {boundVolumeSnapshotContentName: c, readyToUse: READY}}
- {apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, metadata: {name: snaps},
    driver: DRIVER, deletionPolicy: Delete}
- {apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotContent, metadata: {name: c},
    spec: {deletionPolicy: Delete, driver: DRIVER, source: {volumeHandle: VOLUME},
      volumeSnapshotRef: {namespace: shop, name: s1, uid: u1}}, status: {HANDLE}}
`

func TestWhySaysWhatIsWrongWithASnapshotInOpenStack(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
	volume, share := stock(t, cloud, "c1")
	manila, err := administrator.Shares(t.Context(), cloud.CloudsYAML(simulator.Clouds{}))
	assert.NilError(t, err)
	cinder, err := openstack.NewBlockStorageV3(manila.ProviderClient, gophercloud.EndpointOpts{})
	assert.NilError(t, err)
	ofVolume, err := volumesnapshots.Create(t.Context(), cinder, volumesnapshots.CreateOpts{
		VolumeID: volume, Name: "snapshot-u1",
	}).Extract()
	assert.NilError(t, err)
	ofShare, err := sharesnapshots.Create(t.Context(), manila, sharesnapshots.CreateOpts{
		ShareID: share, Name: "snapshot-u1",
	}).Extract()
	assert.NilError(t, err)
	for _, of := range []struct {
		service                        simulator.Service
		id, claim, volume, driver, set string
	}{
		{
			simulator.Volume, ofVolume.ID, "disk", volume, "cinder.csi.openstack.org",
			"volume snapshot set --state",
		},
		{
			simulator.Share, ofShare.ID, "bound", share, "manila.csi.openstack.org",
			"share snapshot set --status",
		},
	} {
		handle, deleted := "snapshotHandle: "+of.id, "deletionTimestamp: '2026-11-24T11:55:00Z',"
		for _, test := range []struct{ status, handle, deleted, ready, want string }{
			{"available", handle, "", "true", ""},
			{"error_deleting", handle, deleted, "true", "could not be deleted for 60m. Ask the cloud's " +
				"administrator: \"the deletion of snapshot ID failed. Repair the cause, such as volumes that " +
				"depend on it, and run openstack SET error ID\"; then yours: wait, the driver deletes it"},
			{"error_deleting", handle, "", "true", "although a VolumeSnapshot uses it"},
			{"error", handle, deleted, "true", "is in error for 60m. Yours: wait"},
			{"error", "", "", "false", "is in error for 60m. Ask the cloud's administrator: \"snapshot ID"},
			{"missing", "snapshotHandle: gone", "", "true", "snapshot gone does not exist in the OpenStack"},
		} {
			if test.status != missing {
				assert.NilError(t, cloud.SetStatus(of.service, of.id, test.status))
			}
			s := marked(t, "c1", map[string]string{"pvc-1": share, "pvc-2": volume}).with(t, ofClaim,
				"CLAIM", of.claim, "DRIVER", of.driver, "VOLUME", of.volume, "HANDLE", test.handle,
				"DELETED", test.deleted, "READY", test.ready)
			_, stdout, stderr := run(t, s.later(t), false, "why", "vs/s1", "-n=shop", "--clouds="+clouds)
			want := strings.NewReplacer("ID", of.id, "SET", of.set).Replace(test.want)
			got := strings.Join(strings.Fields(stdout), " ")
			if of.service == simulator.Share { // Manila does not say since when
				want = strings.ReplaceAll(want, " for 60m", "")
				got = strings.ReplaceAll(got, " at this moment; OpenStack does not say since when", "")
			}
			assert.Check(t, is.Contains(got, want), "%v %v: %s", of.service, test, stderr)
			assert.Check(t, strings.Contains(got, of.id) == (test.handle == handle || test.want != "" &&
				test.status != missing), got)
		}
	}
}
