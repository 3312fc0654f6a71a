package sidecar

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

func TestSidecarAnnouncesItselfWhenTheDriverIsReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.driver.notReady = 1
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
		if !strings.HasPrefix(got.Annotations[key], prefix) {
			t.Errorf("annotation %s is %q", key, got.Annotations[key])
		}
	}
	if f.driver.probes < 2 {
		t.Errorf("the driver was probed %d times before it was ready", f.driver.probes)
	}
}

func TestSidecarAnnouncesItselfAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	first := f.awaitAnnounced()
	// A watch of the fake client sends no event for what happened before.
	eventually(t, "the sidecar watches the CSIAddonsNode", func(context.Context) bool {
		return slices.ContainsFunc(f.dynamic.Actions(), func(action clienttesting.Action) bool {
			return action.Matches("watch", "csiaddonsnodes")
		})
	})
	client := f.dynamic.Resource(resource()).Namespace("csi")
	if err := client.Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if second := f.awaitAnnounced(); second.Spec != first.Spec {
		t.Errorf("the new CSIAddonsNode is %v", second.Spec)
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
	_, err := f.announcer(clock.RealClock{}).apply(t.Context())
	if err == nil || !strings.Contains(err.Error(), "example.com/forever") {
		t.Errorf("the error does not name the finalizer: %v", err)
	}
}

// announcer returns an announcer that does not run yet.
func (f *fixture) announcer(clock clock.Clock) *announcer {
	return newAnnouncer(&Sidecar{
		Settings: &Settings{
			Pod: Pod{Name: "pod-a", Namespace: "csi", UID: "uid-a", Node: "worker-1"},
		},
		Dynamic: f.dynamic, Clock: clock, Metrics: f.metrics,
	}, driverName, "", "")
}

// create creates the CSIAddonsNode of the sidecar with other content.
func (f *fixture) create(other v1alpha1.CSIAddonsNodeDriver,
	change ...func(*unstructured.Unstructured),
) {
	f.Helper()
	node := f.announcer(clock.RealClock{}).want
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
	if err != nil {
		f.Fatal(err)
	}
}

func TestSidecarServesWhileTheCRDIsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var missing atomic.Bool
	var attempts atomic.Int32
	missing.Store(true)
	f.dynamic.PrependReactor("*", "csiaddonsnodes",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			if !missing.Load() {
				return false, nil, nil
			}
			if action.Matches("patch", "csiaddonsnodes") {
				attempts.Add(1)
			}
			return true, nil, apierrors.NewNotFound(resource().GroupResource(), "")
		})
	f.run()
	f.awaitLeader()
	eventually(t, "the sidecar tries to announce itself", func(context.Context) bool {
		return attempts.Load() > 0
	})
	missing.Store(false)
	f.awaitAnnounced()
	select {
	case err := <-f.ended:
		t.Errorf("the sidecar ended: %v", err)
	default:
	}
}

func TestNamesOfAnnouncementsDiffer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", validation.DNS1123SubdomainMaxLength)
	names := map[string]string{}
	for _, pair := range [][2]string{
		{"pod", "cinder"},
		{"pod", "manila"},
		{"pod-2", "cinder"},
		{"pod.a", "b"},
		{"pod", "a.b"},
		{long, "cinder"},
		{long, "manila"},
		{long[1:] + "b", "cinder"},
	} {
		name := wire.ObjectName(pair[0], pair[1])
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			t.Errorf("%q is no name of an object: %v", name, errs)
		}
		key := pair[0] + " " + pair[1]
		if other, ok := names[name]; ok {
			t.Errorf("%s and %s have the same name %s", key, other, name)
		}
		names[name] = key
	}
}

func TestSidecarUsesAFreePortIfAnotherProcessHasThePort(t *testing.T) {
	t.Parallel()
	taken, err := listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).AddrPort().Port()
	free, err := listen(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	settings := &Settings{Pod: Pod{Name: "pod-a", Namespace: "csi"}}
	published, err := wire.ParseEndpoint(endpoint(settings, free))
	if err != nil || published.Port == port || published.Port == 0 {
		t.Errorf("the sidecar publishes %v while port %d is taken: %v", published, port, err)
	}
	settings.IP = "fd00::1"
	want := "[fd00::1]:" + strconv.FormatUint(uint64(published.Port), 10)
	if got := endpoint(settings, free); got != want {
		t.Errorf("with an IP address the sidecar publishes %s, want %s", got, want)
	}
}

func TestErrorAfterASuccessIsLoggedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var requests atomic.Int32
	f.dynamic.PrependReactor("patch", "csiaddonsnodes",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			if requests.Add(1) == 2 {
				return false, nil, nil
			}
			return true, nil, errors.New("no answer")
		})
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	clock := clocktesting.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	ended := make(chan error, 1)
	go func() { ended <- f.announcer(clock).run(ctx) }()
	log := logger.GetSink().(ktesting.Underlier).GetBuffer()
	eventually(t, "two log lines contain the error", func(context.Context) bool {
		clock.Step(applyInterval)
		return strings.Count(log.String(), "no answer") == 2
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// creations runs an announcer. Another client deletes the object each time that it has existed for
// the next of some durations. The result is when the announcer created it.
func creations(t *testing.T, lives ...time.Duration) []time.Duration {
	t.Helper()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.announcer(clock.RealClock{}).run(ctx) }()
	var times []time.Duration
	began, client := time.Now(), f.dynamic.Resource(resource()).Namespace("csi")
	for _, life := range lives {
		synctest.Wait()
		for f.announced(ctx) == nil {
			<-time.After(time.Second)
		}
		times = append(times, time.Since(began))
		<-time.After(life)
		err := client.Delete(ctx, wire.ObjectName("pod-a", driverName), metav1.DeleteOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return times
}

func TestSidecarDoesNotFightForTheAnnouncement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the time of the bubble passes without waiting
		times := creations(t, slices.Repeat([]time.Duration{time.Second}, 20)...)
		if times[1]-times[0] != time.Second {
			t.Errorf("the sidecar created the object %v after its first deletion",
				times[1]-times[0]-time.Second)
		}
		for n := range times[10:] {
			if within := times[n+10] - times[n]; within < lasting {
				t.Errorf("the sidecar created the object 11 times within %v: %v", within, times)
			}
		}
		if between := times[19] - times[18]; between > lastDelay+time.Second {
			t.Errorf("the sidecar created the object after %v", between)
		}
	})
}

func TestAnnouncementThatLastedIsRepairedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const short, long = time.Second, lasting + time.Minute
		times := creations(t, short, short, short, short, long, short, short, short)
		if again := times[5] - times[4] - long; again != 0 {
			t.Errorf("the sidecar created the object %v after it was deleted", again)
		}
		if again := times[7] - times[6]; again > firstDelay+time.Second {
			t.Errorf("the sidecar remembers earlier deletions: it waited %v", again)
		}
	})
}
