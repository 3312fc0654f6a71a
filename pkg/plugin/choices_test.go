package plugin_test

import (
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// Some tools replace a ConfigMap by deleting and creating it.
func TestMissingConfigMapCountsAsDeletedAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := clustertest.New(t, clustertest.Seed{})
		c := plugin.NewChoices(f.Cluster, "manila-csi-config", choice.Manila)
		var events atomic.Int32
		_, err := c.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(any, any) { events.Add(1) },
		})
		assert.NilError(t, err)
		f.Start(t)
		expect := func(when string, class, reason string) {
			t.Helper()
			synctest.Wait()
			assert.Check(t, is.Equal(c.Config().DefaultClass, class), when)
			assert.Check(t, is.Equal(*c.Condition("Manila", nil).Reason, reason), when)
		}
		expect("a ConfigMap that nobody knows", "", "AsExpected")
		configMap := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "manila-csi-config"},
			Data: map[string]string{choice.Key: "apiVersion: config.csi.openstack.org/v1alpha1\n" +
				"kind: ManilaConfig\ndefaultClass: gold\n"},
		}
		for range 2 {
			clustertest.Put(t, f.Guest, configMap)
			expect("created", "gold", "AsExpected")
			clustertest.Delete(t, f.Guest, configMap)
			expect("deleted", "gold", "Missing")
			<-time.After(plugin.ReplacementTime - time.Second)
			expect("before the time", "gold", "Missing")
		}
		before := events.Load()
		<-time.After(time.Second)
		expect("after the time", "", "AsExpected")
		assert.Check(t, events.Load() > before, "controllers are not triggered")
	})
}

// On Kubernetes the spec of the object has the effect of the ConfigMap.
func TestSpecIsReadAsTheConfigMap(t *testing.T) {
	t.Parallel()
	const place = "spec of CinderDriver x"
	for spec, want := range map[string]struct {
		data    map[string]string
		message string
	}{
		"{managementState: Managed, topology: Disabled, defaultClass: gold}": {
			map[string]string{},
			"Nothing in the administrator's configuration is ignored",
		},
		"{blockStorage: {rescanOnResize: true, nodeVolumeAttachLimit: 25, ignoreVolumeAZ: false}," +
			"metadata: {searchOrder: [metadataService, configDrive]}}": {
			map[string]string{
				plugin.CloudConfKey: "[BlockStorage]\nnode-volume-attach-limit = 25\n" +
					"rescan-on-resize = true\n[Metadata]\nsearch-order = \"metadataService,configDrive\"\n",
			},
			"Nothing in the administrator's configuration is ignored",
		},
		"{class: {shareClients: []}, blockStorage: {ignoreVolumeMicroversion: true}}": {
			map[string]string{plugin.CloudConfKey: "[BlockStorage]\nignore-volume-microversion = true\n"},
			place + `: unknown field "class.shareClients": only a ManilaDriver has it` + "\n" +
				"The operator changes no StorageClass and no workload until this is corrected",
		},
	} {
		f := clustertest.New(t, clustertest.Seed{Flavour: flavour.Kubernetes, Spec: spec})
		f.Object = "CinderDriver x"
		c := plugin.NewChoices(f.Cluster, "cinder-csi-config", choice.Cinder)
		f.Start(t)
		got := maps.Clone(c.Get().Data)
		delete(got, choice.Key)
		assert.Check(t, is.DeepEqual(got, want.data), spec)
		assert.Check(t, is.Equal(c.Place(), place))
		assert.Check(t, is.Equal(*c.Condition("Cinder", nil).Message, want.message), spec)
	}
}
