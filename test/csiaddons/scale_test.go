//go:build integration && bench

package csiaddons

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/golden"
)

const figures = "../bench/testdata/figures.json"

const (
	nodes      = 200
	namespaces = 25
	// scheduledClaims is the number of claims in all namespaces.
	scheduledClaims = 5000
	// shares is the number of claims of a driver that cannot reclaim space.
	shares = 10_000
	// Claims in the first namespaces are annotated themselves, the next namespaces are annotated, and
	// the StorageClass of the last ones is.
	claimsThemselves    = 5
	annotatedNamespaces = 10

	// maxMemory is the limit of the memory of the controller in MiB, for 1,000 scheduled claims.
	maxMemory = 5
	// creators is the number of requests of the test at the same time.
	creators = 16
	// bound bounds each step.
	bound = 15 * time.Minute
	idle  = 2 * time.Minute
)

// TestSchedulesOfManyClaims measures what schedules of 5,000 claims on 200 nodes cost: memory of
// the controller, requests to the API server, and how the starts of jobs spread.
func TestSchedulesOfManyClaims(t *testing.T) { //nolint:paralleltest // it measures
	s := &scale{world: newWorld(t), claims: scheduledClaims}
	s.addNodes()
	s.addAttachments()
	s.startWithMetrics()
	s.poll("sidecars are connected", s.allConnected)
	empty := s.measure("nodes and attached volumes, without claims")
	s.addClaims()
	before := s.measure("claims without schedules")
	requests := s.requests()
	started := time.Now()
	s.schedule("@daily")
	s.poll("claims are scheduled", s.allScheduled)
	s.recordTime("all claims are scheduled", started)
	s.logRequests("to schedule all claims", requests)
	s.logSpread()
	after := s.measure("claims with schedules")
	requests = s.requests()
	s.pause(idle)
	s.logRequests(fmt.Sprintf("in %v without changes", idle), requests)
	s.compare(empty, before, after)
	s.checkShares()
}

// checkShares adds claims of a driver that cannot reclaim space to namespaces with a schedule. They
// must not use the requests that jobs need.
func (s *scale) checkShares() {
	s.Helper()
	s.each(shares, func(ctx context.Context, i int) error {
		namespace := namespaceName(claimsThemselves + i%annotatedNamespaces)
		return s.addBound(ctx, namespace, fmt.Sprintf("share-%d", i), "plain", "manila")
	})
	s.measure(fmt.Sprintf("%d claims of Manila in namespaces with schedules", shares))
	requests := s.requests()
	s.pause(idle)
	s.logRequests(fmt.Sprintf("in %v without changes, with these claims", idle), requests)
	reads := request{"get", "persistentvolumes"}
	if got := s.requests()[reads] - requests[reads]; got > 0 {
		s.Errorf("the controller reads PersistentVolumes %d times, although nothing changes", got)
	}
}

// compare checks the memory of scheduled claims: what the process needs because of schedules,
// and what it keeps of each claim and its schedule.
func (s *scale) compare(empty, before, after memory) {
	s.Helper()
	thousands := float64(s.claims) / 1000
	rss, heap := (after.rss-before.rss)/thousands, (after.heap-empty.heap)/thousands
	s.Logf("memory for 1,000 claims: %.2f MiB of RSS and %.2f MiB of heap without schedules, "+
		"%.2f MiB of RSS and %.2f MiB of heap more with schedules", (before.rss-empty.rss)/thousands,
		(before.heap-empty.heap)/thousands, rss, (after.heap-before.heap)/thousands)
	if rss > maxMemory || heap > maxMemory {
		s.Errorf("the schedules of 1,000 claims need %.2f MiB of RSS, and claims and schedules %.2f MiB "+
			"of heap, more than %d", rss, heap, maxMemory)
	}
}

// scale is a world with many objects, and the controller in a process of its own.
type scale struct {
	*world

	claims  int             // with a volume that is attached
	driver  *fakeDriver     // on all nodes
	address string          // of the metrics of the controller
	ended   <-chan struct{} // closed when the controller has ended
	stop    func()          // stops the controller
}

// startWithMetrics starts the program of the controller. There is no other, so it needs no leader
// election.
func (s *scale) startWithMetrics(args ...string) {
	s.Helper()
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", "127.0.0.1:0")
	s.must(err)
	s.address = listener.Addr().String()
	s.must(listener.Close())
	p := s.startProcess(append([]string{
		"--metrics-secure=false", "--metrics-bind-address=" + s.address,
		"--driver-namespaces=manila=" + driverNamespace,
	}, args...)...)
	s.ended, s.stop = p.Done(), func() { p.Stop(time.Minute) }
}

// addNodes creates Nodes, each with a pod of the driver and its sidecar.
func (s *scale) addNodes() {
	s.Helper()
	s.driver = nodeDriver("cinder")
	s.each(nodes, func(ctx context.Context, i int) error {
		return s.client.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}})
	})
	var pods []*corev1.Pod
	for i := range nodes {
		pods = append(pods, s.newPodOf("default", driverNamespace, "plugin-"+nodeName(i), nodeName(i)))
	}
	for _, pod := range pods {
		s.setAddress(pod, "127.0.0.1")
		s.addSidecar(pod, s.driver)
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// each calls a function for many numbers, several at the same time.
func (s *scale) each(n int, do func(context.Context, int) error) {
	s.Helper()
	group, ctx := errgroup.WithContext(s.Context())
	group.SetLimit(creators)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	s.must(group.Wait())
}

// addAttachments attaches the volumes of claims to Nodes. The controller keeps VolumeAttachments in
// memory whether claims have schedules or not.
func (s *scale) addAttachments() {
	s.Helper()
	s.each(s.claims, func(ctx context.Context, i int) error {
		volume := volumeName(namespaceName(i%namespaces), claimName(i))
		attachment := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: volume},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: "cinder", NodeName: nodeName(i % nodes),
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To(volume)},
			},
		}
		if err := s.client.Create(ctx, attachment); err != nil {
			return err
		}
		attachment.Status.Attached = true
		return s.client.Status().Update(ctx, attachment)
	})
}

// addClaims creates claims with volumes. It writes the status of claims
// and volumes too, because kube-controller-manager would need minutes to bind them.
func (s *scale) addClaims() {
	s.Helper()
	for _, name := range []string{className, "plain"} {
		s.create(&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "cinder",
		})
	}
	for i := range namespaces {
		s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceName(i)}})
	}
	s.each(s.claims, func(ctx context.Context, i int) error {
		namespace, class := i%namespaces, "plain"
		if namespace >= claimsThemselves+annotatedNamespaces {
			class = className
		}
		return s.addBound(ctx, namespaceName(namespace), claimName(i), class, "cinder")
	})
	s.poll("claims are bound", func(ctx context.Context) (bool, error) {
		var list corev1.PersistentVolumeClaimList
		err := s.client.List(ctx, &list)
		return len(list.Items) == s.claims && !slices.ContainsFunc(list.Items,
			func(claim corev1.PersistentVolumeClaim) bool {
				return claim.Status.Phase != corev1.ClaimBound
			}), err
	})
}

func namespaceName(i int) string { return fmt.Sprintf("team-%d", i) }
func claimName(i int) string     { return fmt.Sprintf("data-%d", i) }

// addBound creates a claim that is bound, and its volume.
func (s *scale) addBound(ctx context.Context, namespace, name, class, driverOf string) error {
	claim, volume := newClaim(namespace, name), newVolume(namespace, name, driverOf)
	claim.Spec.StorageClassName, volume.Spec.StorageClassName = &class, class
	claim.Annotations = annotations{"pv.kubernetes.io/bind-completed": "yes"}
	if err := s.client.Create(ctx, claim); err != nil {
		return err
	}
	volume.Spec.ClaimRef.UID = claim.UID
	if err := s.client.Create(ctx, volume); err != nil {
		return err
	}
	bind := func(o client.Object, patch string) error {
		return s.client.Status().Patch(ctx, o, client.RawPatch("application/merge-patch+json",
			[]byte(patch)))
	}
	// Kubernetes, too, binds the claim last.
	return cmp.Or(bind(volume, `{"status": {"phase": "Bound"}}`),
		bind(claim, `{"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"],
"capacity": {"storage": "1Gi"}}}`))
}

// schedule annotates claims, namespaces and a StorageClass.
func (s *scale) schedule(text string) {
	s.Helper()
	patch := client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, scheduleKey, text))
	s.must(s.client.Patch(s.Context(),
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: className}}, patch))
	for i := range annotatedNamespaces {
		s.must(s.client.Patch(s.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: namespaceName(claimsThemselves + i)},
		}, patch))
	}
	s.each(s.claims, func(ctx context.Context, i int) error {
		if i%namespaces >= claimsThemselves {
			return nil
		}
		claim := newClaim(namespaceName(i%namespaces), claimName(i))
		return s.client.Patch(ctx, claim, patch)
	})
}

func (s *scale) allConnected(ctx context.Context) (bool, error) {
	var list v1alpha1.CSIAddonsNodeList
	err := s.client.List(ctx, &list)
	return len(list.Items) == nodes && !slices.ContainsFunc(list.Items,
		func(node v1alpha1.CSIAddonsNode) bool { return !connected(&node) }), err
}

func (s *scale) allScheduled(ctx context.Context) (bool, error) {
	var list v1alpha1.ReclaimSpaceCronJobList
	err := s.client.List(ctx, &list)
	return len(list.Items) == s.claims && !slices.ContainsFunc(list.Items,
		func(one v1alpha1.ReclaimSpaceCronJob) bool { return one.Status.NextScheduleTime == nil }), err
}

// poll waits for a condition that costs the API server much.
func (s *scale) poll(what string, condition wait.ConditionWithContextFunc) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), 3*time.Second, bound, true,
		func(ctx context.Context) (bool, error) {
			select {
			case <-s.ended:
				return false, errors.New("the controller has ended")
			default:
				return condition(ctx)
			}
		})
	assert.Assert(s, err == nil, "waited %v until %s: %v", bound, what, err)
}

// pause waits while the controller runs.
func (s *scale) pause(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.Context().Done():
		s.Fatal("interrupted")
	}
}

// memory is the memory of the controller in MiB.
type memory struct{ heap, rss float64 }

// measure returns the memory after the next garbage collection, which Go starts every two minutes.
func (s *scale) measure(what string) memory {
	s.Helper()
	s.poll("the controller is idle", func(ctx context.Context) (bool, error) {
		depth, err := s.metrics(ctx)
		return depth["workqueue_depth"] == 0, err
	})
	before, err := s.metrics(s.Context())
	s.must(err)
	const last = "go_gc_cycles_total_gc_cycles_total"
	var now map[string]float64
	s.poll("garbage is collected", func(ctx context.Context) (bool, error) {
		now, err = s.metrics(ctx)
		return now[last] > before[last]+1, err // the first may have started before
	})
	const mib = 1 << 20
	got := memory{
		heap: now["go_gc_heap_live_bytes"] / mib, rss: now["process_resident_memory_bytes"] / mib,
	}
	s.Logf("%s: live heap %.1f MiB", what, got.heap)
	s.recordMemory(what, got)
	return got
}

// recordMemory fails the test if the controller needs much more memory than recorded.
func (s *scale) recordMemory(what string, got memory) {
	s.Helper()
	const slack = 10
	s.Logf("%s: RSS %.1f MiB", what, got.rss)
	golden.Figure(s, figures, what+" RSS-MiB", got.rss, slack)
}

// recordTime records the seconds since a time, which depend on the machine.
func (s *scale) recordTime(what string, since time.Time) {
	s.Helper()
	seconds := time.Since(since).Seconds()
	s.Logf("%s: %.0f s", what, seconds)
	golden.Figure(s, figures, what+" s", seconds, math.Inf(1))
}

// metrics returns the metrics of the controller, the sum of each.
func (s *scale) metrics(ctx context.Context) (map[string]float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(response.Body)
		return nil, fmt.Errorf("HTTP %d: %s, %w", response.StatusCode, text, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	found := map[string]float64{}
	for name, family := range families {
		for _, one := range family.GetMetric() {
			found[name] += one.GetGauge().GetValue() + one.GetCounter().GetValue()
		}
	}
	return found, err
}

// logRequests logs the requests since an earlier count, the most frequent first.
func (s *scale) logRequests(what string, since map[request]int) {
	s.Helper()
	now := s.requests()
	for one, count := range since {
		now[one] -= count
	}
	var lines []string
	sum := 0
	for _, one := range slices.SortedFunc(maps.Keys(now), func(a, b request) int {
		return cmp.Or(now[b]-now[a], strings.Compare(a.resource+a.verb, b.resource+b.verb))
	}) {
		if now[one] > 0 {
			lines = append(lines, fmt.Sprintf("%6d %s %s", now[one], one.verb, one.resource))
			sum += now[one]
		}
	}
	s.Logf("%d requests %s:\n%s", sum, what, strings.Join(lines, "\n"))
}

// logSpread logs how many jobs will start in each minute after the schedule.
func (s *scale) logSpread() {
	s.Helper()
	var list v1alpha1.ReclaimSpaceCronJobList
	s.must(s.client.List(s.Context(), &list))
	perMinute, perSecond := map[time.Time]int{}, map[time.Time]int{}
	for i := range list.Items {
		next := list.Items[i].Status.NextScheduleTime.UTC()
		perMinute[next.Truncate(time.Minute)]++
		perSecond[next]++
	}
	minutes := slices.SortedFunc(maps.Keys(perMinute), time.Time.Compare)
	counts := slices.Sorted(maps.Values(perMinute))
	s.Logf("jobs start from %v to %v: %d to %d per minute, median %d, at most %d per second",
		minutes[0].Format("15:04"), minutes[len(minutes)-1].Format("15:04"), counts[0],
		counts[len(counts)-1], counts[len(counts)/2],
		slices.Max(slices.Collect(maps.Values(perSecond))))
	most := 3 * s.claims / 120 // the window is two hours
	if len(minutes) < 100 || counts[len(counts)-1] > most {
		s.Errorf("the jobs start in %d minutes, up to %d in one: %v", len(minutes),
			counts[len(counts)-1], counts)
	}
}
