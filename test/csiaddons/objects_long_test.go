//go:build integration && long

package csiaddons

import (
	"context"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// objects are objects that the API server accepts, by a name for errors.
func objects() map[string]string {
	return map[string]string{
		"node": `kind: CSIAddonsNode
spec: {driver: {name: example.com, endpoint: "pod://a.default:9070", nodeID: worker-1}}`,
		"job": `kind: ReclaimSpaceJob
spec: {target: {persistentVolumeClaim: data}}`,
		"job with limits": `kind: ReclaimSpaceJob
spec:
  {target: {persistentVolumeClaim: data}, backOffLimit: 0, retryDeadlineSeconds: 1800,
  timeout: 60}`,
		"cronjob": `kind: ReclaimSpaceCronJob
spec: {schedule: "@daily", jobTemplate: {spec: {target: {persistentVolumeClaim: data}}}}`,
		"cronjob with labels": `kind: ReclaimSpaceCronJob
spec: {schedule: "@daily", jobTemplate: {metadata: {labels: {team: a}, annotations: {by: b}},
  spec: {target: {persistentVolumeClaim: data}}}}`,
		"class": `kind: NetworkFenceClass
spec: {provisioner: example.com, parameters: {zone: a}}`,
		"class without parameters": `kind: NetworkFenceClass
spec: {provisioner: example.com}`,
		"fence": `kind: NetworkFence
spec: {networkFenceClassName: class, cidrs: [10.0.0.1/32]}`,
		"fence without class": `kind: NetworkFence
spec: {driver: example.com, cidrs: [10.0.0.1/32], secret: {name: a, namespace: b},
  parameters: {zone: a}}`,
	}
}

// defaulted are the specifications of some objects after the API server has accepted them.
func defaulted() map[string]string {
	return map[string]string{
		"job": "{target: {persistentVolumeClaim: data}, backOffLimit: 6, retryDeadlineSeconds: 600}",
		"job with limits": "{target: {persistentVolumeClaim: data}, backOffLimit: 0, " +
			"retryDeadlineSeconds: 1800, timeout: 60}",
		"cronjob": `{schedule: "@daily", concurrencyPolicy: Forbid, successfulJobsHistoryLimit: 3,
failedJobsHistoryLimit: 1, jobTemplate: {spec: {target: {persistentVolumeClaim: data},
backOffLimit: 6, retryDeadlineSeconds: 600}}}`,
		"cronjob with labels": `{schedule: "@daily", concurrencyPolicy: Forbid,
successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1, jobTemplate: {metadata:
{labels: {team: a}, annotations: {by: b}}, spec: {target: {persistentVolumeClaim: data},
backOffLimit: 6, retryDeadlineSeconds: 600}}}`,
		"fence": "{networkFenceClassName: class, cidrs: [10.0.0.1/32], fenceState: Fenced}",
	}
}

// refusal is an object that the API server refuses, and a part of the error.
type refusal struct{ object, err string }

func refusals() []refusal {
	const target = "jobTemplate: {spec: {target: {}}}"
	return []refusal{
		{"kind: CSIAddonsNode", "spec: Required value"},
		{"kind: CSIAddonsNode\nspec: {driver: {name: a, endpoint: b}}", "nodeID"},
		{"kind: ReclaimSpaceJob\nspec: {target: {}, backOffLimit: 61}", "backOffLimit"},
		{"kind: ReclaimSpaceJob\nspec: {target: {}, backOffLimit: -1}", "backOffLimit"},
		{
			"kind: ReclaimSpaceJob\nspec: {target: {}, retryDeadlineSeconds: 1801}",
			"retryDeadlineSeconds",
		},
		{"kind: ReclaimSpaceJob\nspec: {target: {}, timeout: 59}", "timeout"},
		{"kind: ReclaimSpaceCronJob\nspec: {schedule: '', " + target + "}", "schedule"},
		{"kind: ReclaimSpaceCronJob\nspec: {schedule: a}", "jobTemplate"},
		{
			"kind: ReclaimSpaceCronJob\nspec: {schedule: a, concurrencyPolicy: Allow, " + target + "}",
			"concurrencyPolicy",
		},
		{
			"kind: ReclaimSpaceCronJob\nspec: {schedule: a, failedJobsHistoryLimit: 61, " + target + "}",
			"failedJobsHistoryLimit",
		},
		{
			"kind: ReclaimSpaceCronJob\nspec: {schedule: a, successfulJobsHistoryLimit: -1, " + target + "}",
			"successfulJobsHistoryLimit",
		},
		{
			"kind: NetworkFence\nspec: {cidrs: [a], secret: {name: a}}",
			"one of driver or networkFenceClassName must be present",
		},
		{
			"kind: NetworkFence\nspec: {cidrs: [a], driver: a}",
			"secret must be present when networkFenceClassName is not specified",
		},
		{"kind: NetworkFence\nspec: {networkFenceClassName: a}", "cidrs"},
		{
			"kind: NetworkFence\nspec: {networkFenceClassName: a, cidrs: [a], fenceState: Half}",
			"fenceState",
		},
		{"kind: NetworkFenceClass\nspec: {}", "provisioner"},
	}
}

// change is a change of an object, and the error of the API server; "" means that it is accepted.
type change struct {
	object string
	value  any
	path   []string
	err    string
}

func changes() []change {
	driver := []string{"spec", "driver"}
	return []change{
		{"node", "other", append(driver, "name"), "name is immutable"},
		{"node", "other", append(driver, "nodeID"), "nodeID is immutable"},
		{"node", "pod://a.default:9071", append(driver, "endpoint"), ""},
		{
			"job", "other",
			[]string{"spec", "target", "persistentVolumeClaim"},
			"persistentVolumeClaim is immutable",
		},
		{"job", int64(60), []string{"spec", "backOffLimit"}, ""},
		{
			"cronjob", "other",
			[]string{"spec", "jobTemplate", "spec", "target", "persistentVolumeClaim"},
			"persistentVolumeClaim is immutable",
		},
		{"cronjob", true, []string{"spec", "suspend"}, ""},
		{"class", "other", []string{"spec", "provisioner"}, "provisioner is immutable"},
		{"class", "b", []string{"spec", "parameters", "zone"}, "parameters are immutable"},
		{
			"class without parameters", "b",
			[]string{"spec", "parameters", "zone"},
			"parameters are immutable",
		},
		{
			"fence", "other",
			[]string{"spec", "networkFenceClassName"},
			"networkFenceClassName is immutable",
		},
		{"fence", "Unfenced", []string{"spec", "fenceState"}, ""},
		{"fence", []any{"10.0.0.2/32"}, []string{"spec", "cidrs"}, ""},
		{"fence without class", "other", driver, "driver is immutable"},
		{"fence without class", "other", []string{"spec", "secret", "name"}, "secret is immutable"},
		{
			"fence without class", "other",
			[]string{"spec", "secret", "namespace"},
			"namespace is immutable",
		},
		{
			"fence without class", "b",
			[]string{"spec", "parameters", "zone"},
			"parameters are immutable",
		},
	}
}

// checkObjects checks defaults and validation with the CRDs that are installed.
func (w *world) checkObjects() {
	w.Helper()
	for name, text := range objects() {
		object := w.object(text)
		created, err := w.resourceOf(object).Create(w.Context(), object, metav1.CreateOptions{})
		if err != nil {
			w.Errorf("the API server refuses the %s: %v", name, err)
			continue
		}
		w.checkDefaults(name, created)
		w.checkChanges(name, created)
		w.must(w.resourceOf(created).Delete(w.Context(), created.GetName(), metav1.DeleteOptions{}))
	}
	for _, refused := range refusals() {
		object := w.object(refused.object)
		_, err := w.resourceOf(object).Create(w.Context(), object, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), refused.err) {
			w.Errorf("the API server accepts an object, or does not say %q, but %v:\n%s",
				refused.err, err, refused.object)
		}
	}
}

// checkLimits checks the limits of texts, which only our CRDs have.
func (w *world) checkLimits() {
	w.Helper()
	claim := func(bytes int) map[string]any {
		name := strings.Repeat("a", bytes)
		return map[string]any{"target": map[string]any{"persistentVolumeClaim": name}}
	}
	cron := func(schedule, bytes int) map[string]any {
		return map[string]any{
			"schedule":    strings.Repeat("a", schedule),
			"jobTemplate": map[string]any{"spec": claim(bytes)},
		}
	}
	sidecar := func(name, endpoint, node int) map[string]any {
		return map[string]any{"driver": map[string]any{
			"name": strings.Repeat("a", name), "endpoint": strings.Repeat("a", endpoint),
			"nodeID": strings.Repeat("a", node),
		}}
	}
	for _, one := range []struct {
		kind string
		spec map[string]any
		err  string
	}{
		{"CSIAddonsNode", sidecar(63, wire.MaxEndpoint, 253), ""},
		{"CSIAddonsNode", sidecar(64, wire.MaxEndpoint, 253), "spec.driver.name: Too long"},
		{"CSIAddonsNode", sidecar(63, wire.MaxEndpoint+1, 253), "spec.driver.endpoint: Too long"},
		{"CSIAddonsNode", sidecar(63, wire.MaxEndpoint, 254), "spec.driver.nodeID: Too long"},
		{"ReclaimSpaceJob", claim(253), ""},
		{"ReclaimSpaceJob", claim(254), "spec.target.persistentVolumeClaim: Too long"},
		{"ReclaimSpaceCronJob", cron(controller.MaxSchedule, 253), ""},
		{"ReclaimSpaceCronJob", cron(controller.MaxSchedule+1, 253), "spec.schedule: Too long"},
		{
			"ReclaimSpaceCronJob", cron(controller.MaxSchedule, 254),
			"spec.jobTemplate.spec.target.persistentVolumeClaim: Too long",
		},
	} {
		object := w.object("kind: " + one.kind)
		object.Object["spec"] = one.spec
		create := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		// The API server may still use the previous CRD.
		w.eventually(func(ctx context.Context) (bool, error) {
			_, err := w.resourceOf(object).Create(ctx, object, create)
			if one.err == "" {
				return true, err
			}
			return err != nil && strings.Contains(err.Error(), one.err), nil
		})
	}
}

// huge is as many bytes as fit into an object.
const huge = 1 << 20

// largeJob creates a job as a tenant who fills the memory of the controller does.
func (w *world) largeJob() *unstructured.Unstructured {
	w.Helper()
	job := w.object("kind: ReclaimSpaceJob")
	w.must(unstructured.SetNestedField(job.Object, strings.Repeat("a", huge), "spec", "target",
		"persistentVolumeClaim"))
	return w.createLarge(job)
}

// largeNode does the same as somebody with root on a node.
func (w *world) largeNode() *unstructured.Unstructured {
	w.Helper()
	node := w.object("kind: CSIAddonsNode\nspec: {driver: {name: example.com, nodeID: worker-1}}")
	w.must(unstructured.SetNestedField(node.Object, strings.Repeat("a", huge), "spec", "driver",
		"endpoint"))
	node.SetFinalizers([]string{v1alpha1.CSIAddonsNodeFinalizer})
	return w.createLarge(node)
}

func (w *world) createLarge(object *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	var created *unstructured.Unstructured
	w.eventually(func(ctx context.Context) (bool, error) {
		var err error
		created, err = w.resourceOf(object).Create(ctx, object, metav1.CreateOptions{})
		return err == nil, nil // the API server still uses the previous CRD
	})
	return created
}

// endLargeJob writes the status of a job that the CRD does not allow any more, as the controller
// does: it has only a part of the object. The rest must stay.
func (w *world) endLargeJob(job *unstructured.Unstructured) {
	w.Helper()
	part := job.DeepCopy()
	w.must(unstructured.SetNestedField(part.Object, strings.Repeat("a", 254), "spec", "target",
		"persistentVolumeClaim"))
	w.must(unstructured.SetNestedField(part.Object, "Failed", "status", "result"))
	ended, err := w.resourceOf(part).UpdateStatus(w.Context(), part, metav1.UpdateOptions{})
	w.must(err)
	result, _, err := unstructured.NestedString(ended.Object, "status", "result")
	w.must(err)
	if !equality.Semantic.DeepEqual(job.Object["spec"], ended.Object["spec"]) || result != "Failed" {
		w.Errorf("a write of the status changes the specification, or has the result %q", result)
	}
}

// endLargeNode does the same for a CSIAddonsNode: it writes the status, deletes the object and
// removes the finalizer.
func (w *world) endLargeNode(node *unstructured.Unstructured) {
	w.Helper()
	patch := func(text string, subresources ...string) *unstructured.Unstructured {
		patched, err := w.resourceOf(node).Patch(w.Context(), node.GetName(), types.MergePatchType,
			[]byte(text), metav1.PatchOptions{}, subresources...)
		w.must(err)
		return patched
	}
	failed := patch(`{"status": {"state": "Failed"}}`, "status")
	state, _, err := unstructured.NestedString(failed.Object, "status", "state")
	w.must(err)
	if !equality.Semantic.DeepEqual(node.Object["spec"], failed.Object["spec"]) || state != "Failed" {
		w.Errorf("a write of the status changes the specification, or has the state %q", state)
	}
	w.must(w.resourceOf(node).Delete(w.Context(), node.GetName(), metav1.DeleteOptions{}))
	patch(`{"metadata": {"finalizers": null}}`)
	if _, err := w.resourceOf(node).Get(w.Context(), node.GetName(), metav1.GetOptions{}); err == nil {
		w.Error("a CSIAddonsNode stays after its finalizer is removed")
	}
}

func (w *world) checkDefaults(name string, created *unstructured.Unstructured) {
	w.Helper()
	text, ok := defaulted()[name]
	if !ok {
		return
	}
	got, err := yaml.Marshal(created.Object["spec"])
	w.must(err)
	var want any
	w.must(yaml.Unmarshal([]byte(text), &want))
	wanted, err := yaml.Marshal(want)
	w.must(err)
	if diff := cmp.Diff(string(wanted), string(got)); diff != "" {
		w.Errorf("specification of the %s (-want +got):\n%s", name, diff)
	}
}

func (w *world) checkChanges(name string, created *unstructured.Unstructured) {
	w.Helper()
	for _, change := range changes() {
		if change.object != name {
			continue
		}
		changed := created.DeepCopy()
		w.must(unstructured.SetNestedField(changed.Object, change.value, change.path...))
		_, err := w.resourceOf(changed).Update(w.Context(), changed,
			metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if change.err == "" && err != nil {
			w.Errorf("the %s does not accept %v=%v: %v", name, change.path, change.value, err)
		}
		if change.err != "" && (err == nil || !strings.Contains(err.Error(), change.err)) {
			w.Errorf("the %s accepts %v=%v, or does not say %q, but %v", name, change.path,
				change.value, change.err, err)
		}
	}
}

// object returns the object of a YAML text, with a name of its own.
func (w *world) object(text string) *unstructured.Unstructured {
	w.Helper()
	object := &unstructured.Unstructured{}
	w.must(yaml.Unmarshal([]byte(text), &object.Object))
	object.SetAPIVersion(v1alpha1.GroupVersion().String())
	object.SetGenerateName("test-")
	return object
}

// resourceOf returns the client for the kind of an object.
func (w *world) resourceOf(object *unstructured.Unstructured) dynamic.ResourceInterface {
	w.Helper()
	kind := object.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	client := w.dynamic.Resource(resource)
	if strings.HasPrefix(kind.Kind, "NetworkFence") {
		return client
	}
	return client.Namespace("default")
}
