package sidecar

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

func TestSidecarAnnouncesItselfWhenTheDriverIsReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.answers.notReady = 1
	f.run()
	got := f.awaitAnnounced()
	want := &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{
			Name: wire.ObjectName("pod-a", driverName), Namespace: "csi",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: "pod-a", UID: "uid-a"},
			},
		},
		Spec: v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{
			Name: driverName, NodeID: "worker-1", EndPoint: got.Spec.Driver.EndPoint,
		}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Annotations", "UID"),
		cmpopts.IgnoreFields(metav1.TypeMeta{}, "Kind", "APIVersion")); diff != "" {
		t.Errorf("CSIAddonsNode (-want +got):\n%s", diff)
	}
	for key, prefix := range map[string]string{
		v1alpha1.CreatedByPodUIDAnnotation: "uid-a", v1alpha1.LastUpdatedAtAnnotation: "20",
		v1alpha1.CertificatePinAnnotation: "sha256:",
	} {
		assert.Check(t, strings.HasPrefix(got.Annotations[key], prefix),
			"annotation %s is %q", key, got.Annotations[key])
	}
	if n := f.answers.probes.Load(); n < 2 {
		t.Errorf("the driver was probed %d times before it was ready", n)
	}
}

func TestSidecarRepairsTheAnnouncement(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]v1alpha1.CSIAddonsNodeDriver{
		"address":          {Name: driverName, NodeID: "worker-1", EndPoint: "pod://evil.csi:1"},
		"immutable node":   {Name: driverName, NodeID: "worker-2", EndPoint: "pod://pod-a.csi:1"},
		"immutable driver": {Name: "other", NodeID: "worker-1", EndPoint: "pod://pod-a.csi:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.create(other)
			f.run()
			eventually(t, "the CSIAddonsNode describes the sidecar", func(ctx context.Context) bool {
				node := f.announced(ctx)
				if node == nil {
					return false
				}
				endpoint, err := wire.ParseEndpoint(node.Spec.Driver.EndPoint)
				return err == nil && endpoint.Pod == "pod-a" && endpoint.Port > 1 &&
					node.Spec.Driver.NodeID == "worker-1" && node.Spec.Driver.Name == driverName &&
					node.Annotations[v1alpha1.CertificatePinAnnotation] != "sha256:evil" &&
					len(node.OwnerReferences) == 1
			})
		})
	}
}

func TestSidecarSaysThatAFinalizerKeepsTheAnnouncement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(v1alpha1.CSIAddonsNodeDriver{Name: driverName, NodeID: "worker-1"},
		func(node *unstructured.Unstructured) {
			node.SetDeletionTimestamp(ptr.To(metav1.Now()))
			node.SetFinalizers([]string{"example.com/forever"})
		})
	err := f.announcer().apply(t.Context())
	assert.Check(t, is.ErrorContains(err, "example.com/forever"))
}

// announcer returns an announcer that does not run yet.
func (f *fixture) announcer() *announcer {
	return newAnnouncer(&Sidecar{
		Settings: &Settings{
			Pod: Pod{Name: "pod-a", Namespace: "csi", UID: "uid-a", Node: "worker-1"},
		},
		Dynamic: f.dynamic, Metrics: f.metrics,
	}, driverName, &net.TCPAddr{}, "")
}

// create creates the CSIAddonsNode of the sidecar with other content.
func (f *fixture) create(other v1alpha1.CSIAddonsNodeDriver,
	change ...func(*unstructured.Unstructured),
) {
	f.Helper()
	node := f.announcer().want
	node.SetOwnerReferences(nil)
	node.SetAnnotations(map[string]string{v1alpha1.CertificatePinAnnotation: "sha256:evil"})
	node.Object["spec"] = map[string]any{"driver": map[string]any{
		"name": other.Name, "nodeID": other.NodeID, "endpoint": other.EndPoint,
	}}
	for _, apply := range change {
		apply(node)
	}
	_, err := f.dynamic.Resource(resource()).Namespace("csi").Create(f.Context(), node,
		metav1.CreateOptions{})
	assert.NilError(f, err)
}

func TestSidecarUsesAFreePortIfAnotherProcessHasThePort(t *testing.T) {
	t.Parallel()
	taken, err := listen(t.Context(), 0)
	assert.NilError(t, err)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	f := newFixture(t)
	f.run("--controller-port=" + strconv.Itoa(port))
	published, err := wire.ParseEndpoint(f.awaitAnnounced().Spec.Driver.EndPoint)
	if err != nil || int(published.Port) == port || f.caller()(controllerToken) != codes.OK {
		t.Errorf("the sidecar publishes %v while port %d is taken: %v", published, port, err)
	}
}

func TestSidecarDoesNotFightForTheAnnouncement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the time of the bubble passes without waiting
		f := newFixture(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.announcer().run(ctx)
		client := f.dynamic.Resource(resource()).Namespace("csi")
		var pauses []time.Duration // between a deletion and the next creation
		for range eventBurst {
			synctest.Wait()
			deleted := time.Now()
			err := client.Delete(ctx, wire.ObjectName("pod-a", driverName), metav1.DeleteOptions{})
			assert.NilError(t, err)
			for f.announced(ctx) == nil {
				synctest.Wait()
				<-time.After(time.Second)
			}
			pauses = append(pauses, time.Since(deleted).Round(time.Minute))
		}
		assert.Check(t, pauses[0] == 0 && pauses[eventBurst-1] == eventInterval,
			"the sidecar created the object after %v", pauses)
	})
}
