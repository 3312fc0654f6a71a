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
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/golden"
)

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
	// memorySlack is the precision of the memory in MiB.
	memorySlack = 10
	// creators is the number of requests of the test at the same time.
	creators = 16
	// bound bounds each step.
	bound = 15 * time.Minute
	idle  = 2 * time.Minute
)

// TestSchedulesOfManyClaims measures what schedules of 5,000 claims on 200 nodes cost: memory of
// the controller, requests to the API server, and how the starts of jobs spread.
func TestSchedulesOfManyClaims(t *testing.T) { //nolint:paralleltest // it measures
	s := &scale{world: newWorld(t)}
	s.addNodes()
	s.addAttachments()
	s.startWithMetrics()
	awaitAll(s, "sidecars are connected", nodes, &v1alpha1.CSIAddonsNodeList{}, connected)
	empty := s.measure("nodes and attached volumes, without claims")
	s.addClaims()
	before := s.measure("claims without schedules")
	requests := s.requests()
	started := time.Now()
	s.schedule("@daily")
	awaitAll(s, "claims are scheduled", scheduledClaims, &v1alpha1.ReclaimSpaceCronJobList{},
		func(c *v1alpha1.ReclaimSpaceCronJob) bool { return c.Status.NextScheduleTime != nil })
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
	const thousands = scheduledClaims / 1000
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

	driver  *fakeDriver     // on all nodes
	address string          // of the metrics of the controller
	ended   <-chan struct{} // closed when the controller has ended
	stop    func()          // stops the controller
}

// startWithMetrics starts the program of the controller, the only one: without leader election.
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
	s.each(scheduledClaims, func(ctx context.Context, i int) error {
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
	s.each(scheduledClaims, func(ctx context.Context, i int) error {
		namespace, class := i%namespaces, "plain"
		if namespace >= claimsThemselves+annotatedNamespaces {
			class = className
		}
		return s.addBound(ctx, namespaceName(namespace), claimName(i), class, "cinder")
	})
	awaitAll(s, "claims are bound", scheduledClaims, &corev1.PersistentVolumeClaimList{},
		func(claim *corev1.PersistentVolumeClaim) bool {
			return claim.Status.Phase == corev1.ClaimBound
		})
}

func namespaceName(i int) string { return fmt.Sprintf("team-%d", i) }
func claimName(i int) string     { return fmt.Sprintf("data-%d", i) }

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
	s.each(scheduledClaims, func(ctx context.Context, i int) error {
		if i%namespaces >= claimsThemselves {
			return nil
		}
		claim := newClaim(namespaceName(i%namespaces), claimName(i))
		return s.client.Patch(ctx, claim, patch)
	})
}

// awaitAll waits until a function accepts as many objects of a list as there are.
func awaitAll[T any](s *scale, what string, n int, list client.ObjectList, accept func(*T) bool) {
	s.Helper()
	s.poll(what, func(ctx context.Context) (bool, error) {
		accepted := 0
		err := cmp.Or(s.client.List(ctx, list), meta.EachListItem(list, func(one runtime.Object) error {
			if accept(any(one).(*T)) {
				accepted++
			}
			return nil
		}))
		return accepted == n, err
	})
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
	end := time.Now().Add(d)
	s.poll("time has passed", func(context.Context) (bool, error) {
		return time.Now().After(end), nil
	})
}

// memory is the memory of the controller in MiB.
type memory struct{ heap, rss float64 }

func memoryOf(metrics map[string]float64) memory {
	const mib = 1 << 20
	return memory{
		heap: metrics["go_gc_heap_live_bytes"] / mib,
		rss:  metrics["process_resident_memory_bytes"] / mib,
	}
}

// measure returns the memory after the next garbage collection, which Go starts every two minutes.
func (s *scale) measure(what string) memory {
	s.Helper()
	const last = "go_gc_cycles_total_gc_cycles_total"
	var before, now map[string]float64
	s.poll("the controller is idle", func(ctx context.Context) (_ bool, err error) {
		before, err = s.metrics(ctx)
		return before["workqueue_depth"] == 0, err
	})
	s.poll("garbage is collected", func(ctx context.Context) (_ bool, err error) {
		now, err = s.metrics(ctx)
		return now[last] > before[last]+1, err // the first may have started before
	})
	got := memoryOf(now)
	s.Logf("%s: live heap %.1f MiB", what, got.heap)
	s.record(what+" RSS-MiB", got.rss, memorySlack)
	return got
}

// record fails the test if a figure is much higher than the recorded one.
func (s *scale) record(what string, value, slack float64) {
	s.Helper()
	s.Logf("%s: %.1f", what, value)
	golden.Figure(s, "../bench/testdata/figures.json", what, value, slack)
}

// recordTime records the seconds since a time, which depend on the machine.
func (s *scale) recordTime(what string, since time.Time) {
	s.Helper()
	s.record(what+" s", time.Since(since).Seconds(), math.Inf(1))
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

// logRequests logs the requests since an earlier count.
func (s *scale) logRequests(what string, since map[request]int) {
	s.Helper()
	sum, now := 0, s.requests()
	for one := range now {
		now[one] -= since[one]
		sum += now[one]
	}
	s.Logf("%d requests %s: %v", sum, what, now)
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
	most := 3 * scheduledClaims / 120 // the window is two hours
	if len(minutes) < 100 || counts[len(counts)-1] > most {
		s.Errorf("the jobs start in %d minutes, up to %d in one: %v", len(minutes),
			counts[len(counts)-1], counts)
	}
}

// TestRoundOfManyClaims measures what a round of jobs costs that are due at the same time: requests
// to the API server, time, and memory of the controller. The schedules become due while the
// controller does not run, so the result does not depend on the time that their creation takes.
func TestRoundOfManyClaims(t *testing.T) { //nolint:paralleltest // it measures
	s := &scale{world: newWorld(t)}
	s.addNodes()
	s.addAttachments()
	s.addClaims()
	s.addDueSchedules()
	started := time.Now()
	s.startWithMetrics("--cronjob-stagger-window=0")
	peak := s.awaitRound()
	s.recordTime("all jobs have ended", started)
	t.Logf("live heap up to %.1f MiB", peak.heap)
	s.record("at most RSS-MiB", peak.rss, memorySlack)
	s.logRequests("of a round", nil)
	s.checkRound()
}

// addDueSchedules creates a ReclaimSpaceCronJob for each claim that was due once since then.
func (s *scale) addDueSchedules() {
	s.Helper()
	scheduled := func(i int) *v1alpha1.ReclaimSpaceCronJob {
		c := &v1alpha1.ReclaimSpaceCronJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaceName(i % namespaces), Name: claimName(i)},
			Spec:       v1alpha1.ReclaimSpaceCronJobSpec{Schedule: "@yearly"},
		}
		c.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = claimName(i)
		return c
	}
	s.each(scheduledClaims, func(ctx context.Context, i int) error {
		return s.client.Create(ctx, scheduled(i))
	})
	due := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	s.pause(time.Until(due))
	patch := client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec": {"schedule": "%d %d * * *"}}`, due.Minute(), due.Hour()))
	s.each(scheduledClaims, func(ctx context.Context, i int) error {
		return s.client.Patch(ctx, scheduled(i), patch)
	})
}

// awaitRound waits until all jobs have ended, and returns the most memory of the controller.
func (s *scale) awaitRound() memory {
	s.Helper()
	awaitAll(s, "sidecars are connected", nodes, &v1alpha1.CSIAddonsNodeList{}, connected)
	var peak memory
	s.poll("calls have ended", func(ctx context.Context) (bool, error) {
		found, err := s.metrics(ctx)
		now := memoryOf(found)
		peak.heap, peak.rss = max(peak.heap, now.heap), max(peak.rss, now.rss)
		return found["csi_addons_operations_total"] >= scheduledClaims, err
	})
	awaitAll(s, "schedules contain the end of their jobs", scheduledClaims,
		&v1alpha1.ReclaimSpaceCronJobList{}, func(c *v1alpha1.ReclaimSpaceCronJob) bool {
			return c.Status.LastSuccessfulTime != nil
		})
	return peak
}

// checkRound checks that each volume was served once.
func (s *scale) checkRound() {
	s.Helper()
	var list v1alpha1.ReclaimSpaceJobList
	s.must(s.client.List(s.Context(), &list))
	claims := map[string]bool{}
	for i := range list.Items {
		job := &list.Items[i]
		claims[job.Namespace+"/"+job.Spec.Target.PersistentVolumeClaim] = true
		assert.Check(s, job.Status.Result == v1alpha1.OperationSucceeded && job.Status.Retries == 0,
			"job %s/%s ended with %+v", job.Namespace, job.Name, job.Status)
	}
	calls := s.driver.nodeCalls.Load()
	assert.Check(s, len(list.Items) == scheduledClaims && len(claims) == scheduledClaims &&
		calls == scheduledClaims, "%d jobs of %d claims made %d calls", len(list.Items), len(claims),
		calls)
}
