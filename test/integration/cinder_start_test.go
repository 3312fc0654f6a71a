//go:build integration

package integration

import (
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestCinderStarts(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.parts(
		part{"CreatesConfigAndClass", e.createsConfigAndClass},
		part{"Settles", e.settles},
		part{"RepairsConfig", e.repairsConfig},
		part{"FollowsConfigOfAdministrator", e.followsConfigOfAdministrator},
	)
}

func (e *cinderEnv) createsConfigAndClass() {
	e.awaitAvailable()
	e.must(e.hasCloudConf(map[string]string{confKey: generatedConf, topologyKey: "true"}))
	e.eventually(soon, func() error {
		return errors.Join(e.isClass(standardStorageClass("true")),
			e.hasCondition(cinderReachable, opv1.ConditionTrue, "AsExpected"),
			e.hasCondition(cinderProgressing, opv1.ConditionFalse, "AsExpected"),
			e.hasCondition(cinderDegraded, opv1.ConditionFalse, ""))
	})
}

// settles checks that the idle operator writes nothing and does not probe the cloud again soon.
func (e *cinderEnv) settles() {
	e.awaitAvailable()
	e.awaitNoWrites()
	e.cloud.ResetLog()
	e.expectNoWritesFor(6 * time.Second)
	counters := e.cloud.Counters()
	assert.Check(e.t, counters.LoginAttempts == 0 && counters.Requests[simulator.Compute] == 0,
		"there were other requests than for the zones of volumes: %v", counters.Calls)
}

// standardStorageClass is the StorageClass of claims without a class.
func standardStorageClass(isDefault string) storagev1.StorageClass {
	return storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        standardClass,
			Annotations: map[string]string{defaultAnnotation: isDefault},
		},
		Provisioner:          cinder().ClusterCSIDriver,
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowVolumeExpansion: ptr.To(true),
	}
}
