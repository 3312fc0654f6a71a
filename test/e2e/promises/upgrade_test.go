//go:build e2e

package promises

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestUpgradesKeepEveryRecord replaces an earlier release by this one with each way of
// installation, while StatefulSets write to volumes. Then the new drivers grow, copy, unmount and
// mount them.
func TestUpgradesKeepEveryRecord(t *testing.T) {
	x := use(t, kind{plain: true})
	from, to := x.publishEarlier(), x.publish()
	for name, by := range map[string]way{"files": files(), "helm": helm()} {
		t.Run(name, func(t *testing.T) {
			x := &test{&pods.Test{T: t, Cluster: x.Cluster}}
			from, to := x.withHelm(from, "helm4"), x.withHelm(to, "helm4")
			x.leavesNothing(by, to, func(x *test) {
				x.Must(by.install(x.T.Context(), from))
				x.upgrades(func() { x.Must(by.upgrade(x.T.Context(), to)) })
			})
		})
	}
}

// xfs is a StorageClass of Cinder: without a capability that not each machine has, a mounted xfs
// grows, and a mounted ext4 does not.
const xfs = `kubectl apply -f - <<EOF
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: xfs}
provisioner: cinder.csi.openstack.org
parameters: {csi.storage.k8s.io/fstype: xfs}
allowVolumeExpansion: true
volumeBindingMode: WaitForFirstConsumer
EOF`

// copiesInUse lets Cinder take snapshots of volumes in use. The operator keeps this parameter.
const copiesInUse = `kubectl patch volumesnapshotclass standard-csi --type=merge \
  --patch='{"parameters": {"force-create": "true"}}'`

func (x *test) upgrades(upgrade func()) {
	x.T.Helper()
	x.run(xfs)
	x.runAfter("kubectl delete storageclass xfs")
	volume := x.WriteInStatefulSet("volume", pods.Class{Name: "xfs", Mode: corev1.ReadWriteOnce}, "")
	share := x.WriteInStatefulSet("share", pods.Manila(), "")
	all := writers{volume, share}
	x.replacePods(x.workloads(), upgrade)
	x.run(awaitReady)
	all.mustBeUndisturbed()
	x.run(copiesInUse)
	x.growsAndCopies(volume.Claim, "standard-csi")
	x.growsAndCopies(share.Claim, "csi-manila-standard")
	all.mustBeUndisturbed()
	for _, w := range all {
		x.Must(x.Remove(x.T.Context(), w.Pod))
		w.MustProgress()
	}
	all.mustHaveWritten()
}

// growsAndCopies grows a claim, and takes and deletes a snapshot of it.
func (x *test) growsAndCopies(claim, class string) {
	x.T.Helper()
	x.run(fmt.Sprintf(`
kubectl patch pvc %[1]s --type=merge \
  --patch='{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}'
kubectl wait pvc/%[1]s --for=jsonpath='{.status.capacity.storage}'=2Gi --timeout=5m
kubectl apply -f - <<EOF
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: %[1]s}
spec: {volumeSnapshotClassName: %[2]s, source: {persistentVolumeClaimName: %[1]s}}
EOF
kubectl wait volumesnapshot/%[1]s --for=jsonpath='{.status.readyToUse}'=true --timeout=5m
kubectl delete volumesnapshot/%[1]s --timeout=2m`, claim, class))
}
