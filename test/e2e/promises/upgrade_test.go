//go:build e2e

package promises

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestUpgradesKeepEveryRecord replaces the drivers of each earlier generation by those of this
// release, while StatefulSets write to volumes of the earlier drivers. After the first upgrade, the
// next generation is a rollback. After each upgrade, the new drivers unmount and mount the volumes.
func TestUpgradesKeepEveryRecord(t *testing.T) {
	x := use(t, kind{idle: true})
	for _, release := range []string{"4.17", "4.22", "5.1"} {
		t.Run(release, func(t *testing.T) {
			x := &test{&pods.Test{T: t, Cluster: x.Cluster}}
			x.scaleOperators(0)
			withdraw := x.installEarlier(release)
			all := writers{
				x.WriteInStatefulSet("volume", pods.Cinder(), ""),
				x.WriteInStatefulSet("share", pods.Manila(), ""),
			}
			x.mustReplacePods(x.workloads(), func() {
				withdraw()
				x.scaleOperators(1)
			})
			all.mustBeUndisturbed()
			for _, w := range all {
				x.Must(x.Remove(t.Context(), w.Pod))
				w.MustProgress()
			}
			all.mustHaveWritten()
		})
	}
}

// scaleOperators sets the number of pods of the operators, and waits for it.
func (x *test) scaleOperators(replicas int) {
	x.T.Helper()
	var operators []workload
	for _, o := range x.Cluster.Operators {
		w := workload{o.Namespace, o.Name, true}
		x.run(fmt.Sprintf("kubectl scale --replicas=%d %s", replicas, w.object()))
		operators = append(operators, w)
	}
	x.awaitRollouts(operators)
}

// installEarlier writes the objects of the earlier operators of a release, and waits for their
// drivers. It returns a function that withdraws the permissions that only those need.
func (x *test) installEarlier(release string) (withdraw func()) {
	x.T.Helper()
	withdraw = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), pods.CleanupTimeout)
		defer cancel()
		assert.Check(x.T, x.Cluster.WithdrawEarlierRoles(ctx))
	})
	x.T.Cleanup(withdraw)
	x.Must(x.Cluster.InstallEarlier(x.T.Context(), release))
	x.awaitRollouts(x.workloads())
	return withdraw
}
