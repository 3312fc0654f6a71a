package plugin_test

import (
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
