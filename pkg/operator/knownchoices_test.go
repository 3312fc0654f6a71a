package operator

import (
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// A normal installation has no ConfigMap with choices.
func TestStartWaitsOnlyForAConfigMapThatAnEarlierProcessKnew(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mark    string
		created time.Duration
		want    time.Duration
	}{
		"a new cluster":    {},
		"it was known":     {mark: "true", want: plugin.ReplacementTime},
		"it is replaced":   {mark: "true", created: 3 * time.Second, want: 3 * time.Second},
		"it always exists": {mark: "true", created: -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := clustertest.New(t, clustertest.Seed{})
			p := cinderPlugin()
			p.Setup = setUpChoices
			d := assembledIn(t, f, p)[0]
			_, object, err := d.workload(bundle.NodeWorkload, flavour.Guest)
			assert.NilError(t, err)
			daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
				Namespace: object.Namespace, Name: object.Name,
				Annotations: map[string]string{configuredAnnotation: tt.mark},
			}}
			clustertest.Put(t, f.Guest, daemonSet)
			f.Side(flavour.Guest).ObjectInformers.For(object.Namespace, object.Name).
				Apps().V1().DaemonSets().Informer() // the workload controller requests it
			create := func() { clustertest.Put(t, f.Guest, choices("")) }
			if tt.created < 0 {
				create()
			}
			f.Start(t)
			if tt.created > 0 {
				time.AfterFunc(tt.created, create)
			}
			began := time.Now()
			d.awaitChoices(t.Context())
			assert.Check(t, is.Equal(time.Since(began).Round(time.Second), tt.want), name)
		})
	}
}

func TestDaemonSetIsMarkedWhileThereAreChoices(t *testing.T) {
	t.Parallel()
	for _, exists := range []bool{true, false} {
		var objects []runtime.Object
		if exists {
			objects = append(objects, choices(""))
		}
		f := clustertest.New(t, clustertest.Seed{Guest: objects})
		p := cinderPlugin()
		p.Setup = setUpChoices
		d := assembledIn(t, f, p)[0]
		daemonSets := f.Side(flavour.Guest).ObjectInformers.For("a", "b").
			Apps().V1().DaemonSets()
		daemonSets.Informer()
		marked := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "b", Annotations: map[string]string{configuredAnnotation: "true"},
		}}
		clustertest.Put(t, f.Guest, marked)
		f.Start(t)
		wanted := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
		assert.NilError(t, d.configuredHook(daemonSets.Lister()).DaemonSet(nil, wanted))
		want := map[string]string{configuredAnnotation: "true"}
		if !exists {
			want = map[string]string{configuredAnnotation + "-": ""}
		}
		assert.Check(t, is.DeepEqual(want, wanted.Annotations))
	}
}
