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
		part{"Class", e.choiceOfClass},
		part{"VolumeTypes", e.choiceOfVolumeTypes},
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

// Settings that follow the generated part of cloud.conf.
const (
	attachLimit = "\n[BlockStorage]\nnode-volume-attach-limit = 25\n"
	rescan      = "\n[BlockStorage]\nrescan-on-resize = true\n"
)

// repairsConfig changes and deletes cloud-conf, and checks that the operator repairs it.
func (e *cinderEnv) repairsConfig() {
	e.awaitAvailable()
	repaired := func() error {
		return e.hasCloudConf(map[string]string{confKey: generatedConf, topologyKey: "true"})
	}
	e.patch(configMaps(), operatorNamespace, cloudConf,
		`{"data":{"cloud.conf":"[Global]\n","enable_topology":null,"ca-bundle.pem":"a leftover"}}`)
	e.eventually(prompt, repaired)
	e.delete(configMaps(), operatorNamespace, cloudConf)
	e.eventually(prompt, repaired)
	e.awaitAvailable()
}

// followsConfigOfAdministrator checks that the operator copies the settings of block storage from
// the ConfigMap of the driver, and without one from that of the installer.
func (e *cinderEnv) followsConfigOfAdministrator() {
	is := func(conf, topology string) {
		e.t.Helper()
		e.eventually(prompt, func() error {
			return e.hasCloudConf(map[string]string{confKey: generatedConf + conf, topologyKey: topology})
		})
	}
	e.patch(configMaps(), openshiftConfig, cloudProviderConfig,
		`{"data":{"config":"[BlockStorage]\nrescan-on-resize = true\n"}}`)
	e.putUserConfig(map[string]string{"config": "[Global]\nsecret-name = openstack-credentials\n" +
		attachLimit, topologyKey: "false"})
	is(attachLimit, "false")
	e.putUserConfig(nil)
	is(rescan, "true")
	e.setCloudConfigKey("nothing")
	is("", "true")
	e.awaitAvailable()
}

// setCloudConfigKey makes Infrastructure refer to a key of the installer's ConfigMap.
func (e *env) setCloudConfigKey(key string) {
	e.t.Helper()
	e.patch(configResource("infrastructures"), "", "cluster",
		`{"spec":{"cloudConfig":{"name":"cloud-provider-config","key":"`+key+`"}}}`)
}
