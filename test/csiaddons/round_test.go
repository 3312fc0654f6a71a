//go:build integration && bench

package csiaddons

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// roundJobs is the number of jobs of a round, one for each claim.
const roundJobs = scheduledClaims

// TestRoundOfManyClaims measures what a round of jobs costs that are due at the same time: requests
// to the API server, time, and memory of the controller. The schedules become due while the
// controller does not run, so the result does not depend on the time that their creation takes.
func TestRoundOfManyClaims(t *testing.T) { //nolint:paralleltest // it measures
	s := &scale{world: newWorld(t), claims: roundJobs}
	s.addNodes()
	s.addAttachments()
	s.addClaims()
	s.addDueSchedules()
	started := time.Now()
	s.startWithMetrics("--cronjob-stagger-window=0")
	peak := s.awaitRound()
	s.recordTime("all jobs have ended", started)
	t.Logf("live heap up to %.1f MiB", peak.heap)
	s.recordMemory("at most", peak)
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
	s.each(s.claims, func(ctx context.Context, i int) error {
		return s.client.Create(ctx, scheduled(i))
	})
	due := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	s.poll("the schedules are due", func(context.Context) (bool, error) {
		return time.Now().After(due), nil
	})
	patch := client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec": {"schedule": "%d %d * * *"}}`, due.Minute(), due.Hour()))
	s.each(s.claims, func(ctx context.Context, i int) error {
		return s.client.Patch(ctx, scheduled(i), patch)
	})
}

// awaitRound waits until all jobs have ended, and returns the most memory of the controller.
func (s *scale) awaitRound() memory {
	s.Helper()
	s.poll("sidecars are connected", s.allConnected)
	var peak memory
	s.poll("calls have ended", func(ctx context.Context) (bool, error) {
		found, err := s.metrics(ctx)
		const mib = 1 << 20
		peak.heap = max(peak.heap, found["go_gc_heap_live_bytes"]/mib)
		peak.rss = max(peak.rss, found["process_resident_memory_bytes"]/mib)
		return found["csi_addons_operations_total"] >= roundJobs, err
	})
	s.poll("schedules contain the end of their jobs", func(ctx context.Context) (bool, error) {
		var list v1alpha1.ReclaimSpaceCronJobList
		err := s.client.List(ctx, &list)
		ended := 0
		for i := range list.Items {
			if list.Items[i].Status.LastSuccessfulTime != nil {
				ended++
			}
		}
		return ended == roundJobs, err
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
	assert.Check(s, len(list.Items) == roundJobs && len(claims) == roundJobs && calls == roundJobs,
		"%d jobs of %d claims made %d calls", len(list.Items), len(claims), calls)
}
