//go:build integration && long

package csiaddons

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/fence"
)

// huge is as many bytes as fit into an object.
const huge = 1 << 20

// TestLargeObjectsOfTenants runs the controller with objects that only the
// CustomResourceDefinitions of another program accept. The cache contains a part of each. The
// controller refuses the objects, and never writes that part.
func TestLargeObjectsOfTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.part("jobs and schedules", (*world).checkLargeJobs)
	w.part("CSIAddonsNodes", (*world).checkLargeCSIAddonsNodes)
}

func (w *world) checkLargeJobs() {
	for _, plural := range []string{"reclaimspacejobs", "reclaimspacecronjobs"} {
		w.removeLimits(plural)
	}
	long := strings.Repeat("a", huge)
	labels := map[string]string{"team": "a"}
	job := &v1alpha1.ReclaimSpaceJob{ObjectMeta: tenantMeta("large", labels)}
	job.Spec.Target.PersistentVolumeClaim = long
	unscheduled := &v1alpha1.ReclaimSpaceCronJob{ObjectMeta: tenantMeta("large", labels)}
	unscheduled.Spec.Schedule = long
	unscheduled.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = "data"
	untargeted := &v1alpha1.ReclaimSpaceCronJob{ObjectMeta: tenantMeta("untargeted", labels)}
	untargeted.Spec.Schedule = "* * * * *"
	untargeted.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = long
	scheduled := &v1alpha1.ReclaimSpaceCronJob{ObjectMeta: tenantMeta("scheduled", nil)}
	scheduled.Spec.Schedule = "* * * * *"
	scheduled.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = "data"
	scheduled.Spec.JobTemplate.Labels = labels
	scheduled.Spec.JobTemplate.Annotations = map[string]string{"note": long[:100<<10]}
	for _, one := range []client.Object{job, unscheduled, untargeted, scheduled} {
		w.must(w.client.Create(w.Context(), one, client.FieldOwner("tenant")))
	}
	stop := w.startController("--cronjob-stagger-window=0",
		"--driver-namespaces=cinder="+driverNamespace)

	ended := w.awaitEnd("large")
	if ended.Status.Reason != controller.ReasonNoTarget ||
		!strings.Contains(ended.Status.Message, "spec.target.persistentVolumeClaim") {
		w.Errorf("the job ended with %s: %s", ended.Status.Reason, ended.Status.Message)
	}
	w.awaitScheduleReason("large", controller.ReasonInvalidSchedule)
	w.awaitScheduleReason("untargeted", controller.ReasonNoTarget)
	created := w.awaitJobOf("scheduled")
	if created.Labels["team"] != "a" || len(created.Annotations["note"]) != 100<<10 {
		w.Errorf("the job has the labels %v, and an annotation of %d bytes", created.Labels,
			len(created.Annotations["note"]))
	}
	stop()
	for _, one := range []client.Object{job, unscheduled, untargeted} {
		w.checkUnchanged(one)
	}
	// The status of each object is written once or a few times.
	const most = 10
	requests := w.requests()
	for _, resource := range []string{"reclaimspacejobs/status", "reclaimspacecronjobs/status"} {
		if got := requests[request{"update", resource}]; got == 0 || got > most {
			w.Errorf("the controller wrote %s %d times", resource, got)
		}
	}
}

// checkLargeCSIAddonsNodes creates them beside the one of a sidecar.
func (w *world) checkLargeCSIAddonsNodes() {
	w.removeLimits("csiaddonsnodes")
	pod := w.addPod(driverNamespace, "plugin", "worker-1")
	long := strings.Repeat("a", huge)
	large := map[string]*v1alpha1.CSIAddonsNode{}
	for reason, change := range map[string]func(*v1alpha1.CSIAddonsNode){
		connection.ReasonNotAllowed: func(n *v1alpha1.CSIAddonsNode) { n.Spec.Driver.Name = long },
		connection.ReasonBadEndpoint: func(n *v1alpha1.CSIAddonsNode) {
			n.Spec.Driver.EndPoint = "pod://" + long
		},
		connection.ReasonNotOwned: func(n *v1alpha1.CSIAddonsNode) {
			n.Annotations["note"] = long[:200<<10]
		},
		connection.ReasonNoPin: func(n *v1alpha1.CSIAddonsNode) {
			n.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
			}}
			n.Annotations[v1alpha1.CertificatePinAnnotation] = long[:200<<10]
		},
	} {
		one := &v1alpha1.CSIAddonsNode{
			ObjectMeta: tenantMeta("large-"+strings.ToLower(reason), map[string]string{"team": "a"}),
		}
		one.Namespace = driverNamespace
		one.Spec.Driver = v1alpha1.CSIAddonsNodeDriver{
			Name: "cinder", EndPoint: "pod://" + pod.Name + "." + driverNamespace + ":9070",
			NodeID: "worker-1",
		}
		change(one)
		w.must(w.client.Create(w.Context(), one, client.FieldOwner("tenant")))
		large[reason] = one
	}
	w.addSidecar(pod, nodeDriver("cinder"))
	stop := w.startController("--driver-namespaces=cinder=" + driverNamespace)

	w.awaitSidecar("cinder", connected)
	for reason, one := range large {
		found := &v1alpha1.CSIAddonsNode{}
		w.eventually(func(ctx context.Context) (bool, error) {
			err := w.client.Get(ctx, client.ObjectKeyFromObject(one), found)
			return found.Status.Reason == reason, err
		})
		if got := len(found.Status.Message); got == 0 || got > 2<<10 {
			w.Errorf("the message with the reason %s has %d bytes", reason, got)
		}
	}
	w.addVolume("other", "cinder", "worker-1") // the first part has a schedule of "data"
	w.addJob("other", "other")
	if got := w.awaitEnd("other").Status; got.Result != v1alpha1.OperationSucceeded {
		w.Errorf("the job ended with %s: %s", got.Reason, got.Message)
	}
	stop()
	for _, one := range large {
		w.checkUnchanged(one)
	}
}

// TestNodeThatHangsDoesNotStopOthers runs jobs of a node whose driver does not answer, and one of
// another node.
func TestNodeThatHangsDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	entered, answer := make(chan struct{}, 10), make(chan struct{})
	driverOf := map[string]func(context.Context) (usage, error){
		"worker-1": func(ctx context.Context) (usage, error) {
			entered <- struct{}{}
			select {
			case <-answer:
			case <-ctx.Done():
			}
			return usage{pre: 3, post: 1}, ctx.Err()
		},
		"worker-2": answers(2, 1, nil),
	}
	w.addNode("worker-2")
	for node, onNode := range driverOf {
		w.addSidecar(w.addPod(driverNamespace, "plugin-"+node, node), &fakeDriver{
			name: "cinder", services: services{nodeService}, reclaims: reclaims{online}, onNode: onNode,
		})
	}
	w.startController("--driver-namespaces=cinder="+driverNamespace, "--reclaim-space-timeout=1h")
	const jobs = 7 // a namespace may have 5 calls
	for n := range jobs {
		name := fmt.Sprintf("hangs-%d", n)
		w.addVolume(name, "cinder", "worker-1")
		w.addJob(name, name)
	}
	w.receive(entered, "the first call")
	w.receive(entered, "the second call")
	for n := range jobs {
		w.awaitJob(fmt.Sprintf("hangs-%d", n), func(job *v1alpha1.ReclaimSpaceJob) bool {
			return job.Status.Reason == controller.ReasonStarted ||
				job.Status.Reason == controller.ReasonBusy
		})
	}
	w.addVolume("other", "cinder", "worker-2")
	w.addJob("other", "other")
	if got := w.awaitEnd("other").Status; got.Result != v1alpha1.OperationSucceeded {
		t.Errorf("the job of the other node ended with %s: %s", got.Reason, got.Message)
	}
	if got := len(entered); got > 0 {
		t.Errorf("%d more calls run on the node that hangs", got)
	}
	close(answer)
	for n := range jobs {
		if got := w.awaitEnd(fmt.Sprintf("hangs-%d", n)).Status; got.Retries != 0 {
			t.Errorf("a job of the node ended with %s: %s", got.Reason, got.Message)
		}
	}
}

// TestJobsOfATenantLeaveMemoryForOthers runs the jobs of a tenant whose namespace is full of large
// pods, for a volume that is not attached, and a fence at the same time.
func TestJobsOfATenantLeaveMemoryForOthers(t *testing.T) {
	t.Parallel()
	const (
		jobs, pods, size = 110, 60, 250 << 10
		mostMemory       = 200 << 10 // KiB
		fencedWithin     = 15 * time.Second
	)
	w := newWorld(t)
	w.create(&storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "manila"},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: ptr.To(false)},
	})
	for n := range pods {
		w.create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprintf("large-%d", n),
				Annotations: map[string]string{"note": strings.Repeat("a", size)},
			},
			Spec: corev1.PodSpec{
				SchedulerName: "none", Containers: []corev1.Container{{Name: "a", Image: "a"}},
			},
		})
	}
	w.addVolume("share", "manila")
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), fenceDriver("manila"))
	w.addFenceClass("shares", v1alpha1.StorageNetworksParameter, "172.16.0.0/16")
	p := w.startProcess("--driver-namespaces=manila=" + driverNamespace)
	w.awaitSidecar("manila", connected)
	group, ctx := errgroup.WithContext(t.Context())
	for n := range jobs {
		group.Go(func() error { return w.client.Create(ctx, newJob(fmt.Sprint("job-", n), "share")) })
	}
	w.must(group.Wait())
	began := time.Now()
	w.addFence("lost", v1alpha1.NetworkFenceSpec{
		NetworkFenceClassName: "shares", Cidrs: []string{"10.0.0.1/32"},
	})
	w.awaitFence("lost", v1alpha1.OperationSucceeded, fence.ReasonFenced)
	took := time.Since(began)
	for n := range jobs {
		w.awaitJob(fmt.Sprint("job-", n), func(job *v1alpha1.ReclaimSpaceJob) bool {
			return job.Status.Reason != ""
		})
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	w.must(err)
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	var memory int
	_, err = fmt.Sscan(line, &memory)
	w.must(err)
	t.Logf("fenced after %v, with %d MiB of memory", took.Round(time.Millisecond), memory>>10)
	if took > fencedWithin || memory > mostMemory {
		t.Errorf("the fence took %v, and the controller had up to %d KiB of memory", took, memory)
	}
}

func tenantMeta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: labels, Finalizers: []string{"example.com/tenant"},
		Annotations: map[string]string{"note": "kept"},
	}
}

// removeLimits removes the limits of texts from a CRD, and waits until the API server uses it.
func (w *world) removeLimits(plural string) {
	w.Helper()
	crds, unlimited := w.crds(), w.ownCRDs()[plural]
	removeLimits(unlimited.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	w.eventually(func(ctx context.Context) (bool, error) {
		found, err := crds.Get(ctx, unlimited.Name, metav1.GetOptions{})
		w.must(err)
		found.Spec = unlimited.Spec
		_, err = crds.Update(ctx, found, metav1.UpdateOptions{})
		return err == nil, nil // somebody else has changed the object
	})
	object := w.object("kind: " + unlimited.Spec.Names.Kind + "\nspec: {}")
	object.Object["spec"] = longSpec(plural)
	w.eventually(func(ctx context.Context) (bool, error) {
		_, err := w.resourceOf(object).Create(ctx, object,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, nil // the API server still uses the previous CRD
	})
}

// longSpec returns a spec that the limits of a CRD refuse.
func longSpec(plural string) map[string]any {
	name := strings.Repeat("a", 1<<10)
	target := map[string]any{"target": map[string]any{"persistentVolumeClaim": name}}
	switch plural {
	case "csiaddonsnodes":
		return map[string]any{"driver": map[string]any{
			"name": name, "endpoint": name, "nodeID": name,
		}}
	case "reclaimspacecronjobs":
		return map[string]any{"schedule": name, "jobTemplate": map[string]any{"spec": target}}
	default:
		return target
	}
}

// awaitScheduleReason waits until the status of a ReclaimSpaceCronJob has a reason.
func (w *world) awaitScheduleReason(name, reason string) {
	w.Helper()
	w.eventually(func(ctx context.Context) (bool, error) {
		c := &v1alpha1.ReclaimSpaceCronJob{}
		err := w.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, c)
		return c.Status.Reason == reason, err
	})
}

// awaitJobOf waits for a job that waits for its claim, and returns it.
func (w *world) awaitJobOf(cronJob string) *v1alpha1.ReclaimSpaceJob {
	w.Helper()
	var list v1alpha1.ReclaimSpaceJobList
	found := -1
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.List(ctx, &list, client.InNamespace("default"))
		found = slices.IndexFunc(list.Items, func(job v1alpha1.ReclaimSpaceJob) bool {
			return strings.HasPrefix(job.Name, cronJob+"-") && len(job.Status.Conditions) > 0
		})
		return found >= 0, err
	})
	return &list.Items[found]
}

// checkUnchanged compares an object with the one that a tenant created. Only the status, and who
// wrote it, may differ.
func (w *world) checkUnchanged(created client.Object) {
	w.Helper()
	found := created.DeepCopyObject().(client.Object)
	w.must(w.client.Get(w.Context(), client.ObjectKeyFromObject(created), found))
	var contents []map[string]any
	for _, one := range []client.Object{created, found} {
		one.SetResourceVersion("")
		one.SetManagedFields(slices.DeleteFunc(one.GetManagedFields(),
			func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource == "status" }))
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(one)
		w.must(err)
		delete(content, "status")
		contents = append(contents, content)
	}
	if !equality.Semantic.DeepEqual(contents[0], contents[1]) {
		w.Errorf("%T %s has changed", found, found.GetName())
	}
}
