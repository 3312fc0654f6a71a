package kubectl

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// explainPodsOfJob says why the pods of a Job do not run.
func explainPodsOfJob(ctx context.Context, q question, job *batchv1.Job) *Explanation {
	e := &Explanation{State: "not finished"}
	if job.Status.CompletionTime != nil {
		e.State = "complete"
	}
	if text := diagnosis.FailedCreate(events(ctx, q.guest, job)); text != "" {
		e.Chain = append(e.Chain, q.refused("the Job cannot create pods", text))
	}
	if ptr.Deref(job.Spec.Suspend, false) {
		e.Chain = append(e.Chain, linkf(Warning, "the Job is suspended").
			then("Set spec.suspend of the Job to false, or see what suspends it"))
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			e.State = "failed"
			e.Chain = append(e.Chain, linkf(Problem, "%s", c.Message).
				then("See the log of its pods, and create the Job again"))
		}
	}
	within := client.InNamespace(job.Namespace)
	for _, pod := range list[corev1.PodList](ctx, q.guest, within).Items {
		if metav1.IsControlledBy(&pod, job) && !hasEnded(&pod) {
			e.Chain = append(e.Chain, q.podLinks(ctx, &pod)...)
		}
	}
	return e
}
