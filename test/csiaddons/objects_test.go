//go:build integration

package csiaddons

import (
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
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
func (c *cluster) checkObjects() {
	c.Helper()
	for name, text := range objects() {
		object := c.object(text)
		created, err := c.client(object).Create(c.Context(), object, metav1.CreateOptions{})
		if err != nil {
			c.Errorf("the API server refuses the %s: %v", name, err)
			continue
		}
		c.checkDefaults(name, created)
		c.checkChanges(name, created)
		c.must(c.client(created).Delete(c.Context(), created.GetName(), metav1.DeleteOptions{}))
	}
	for _, refused := range refusals() {
		object := c.object(refused.object)
		_, err := c.client(object).Create(c.Context(), object, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), refused.err) {
			c.Errorf("the API server accepts an object, or does not say %q, but %v:\n%s",
				refused.err, err, refused.object)
		}
	}
}

func (c *cluster) checkDefaults(name string, created *unstructured.Unstructured) {
	c.Helper()
	text, ok := defaulted()[name]
	if !ok {
		return
	}
	got, err := yaml.Marshal(created.Object["spec"])
	c.must(err)
	var want any
	c.must(yaml.Unmarshal([]byte(text), &want))
	wanted, err := yaml.Marshal(want)
	c.must(err)
	if diff := cmp.Diff(string(wanted), string(got)); diff != "" {
		c.Errorf("specification of the %s (-want +got):\n%s", name, diff)
	}
}

func (c *cluster) checkChanges(name string, created *unstructured.Unstructured) {
	c.Helper()
	for _, change := range changes() {
		if change.object != name {
			continue
		}
		changed := created.DeepCopy()
		c.must(unstructured.SetNestedField(changed.Object, change.value, change.path...))
		_, err := c.client(changed).Update(c.Context(), changed,
			metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if change.err == "" && err != nil {
			c.Errorf("the %s does not accept %v=%v: %v", name, change.path, change.value, err)
		}
		if change.err != "" && (err == nil || !strings.Contains(err.Error(), change.err)) {
			c.Errorf("the %s accepts %v=%v, or does not say %q, but %v", name, change.path,
				change.value, change.err, err)
		}
	}
}

// object returns the object of a YAML text, with a name of its own.
func (c *cluster) object(text string) *unstructured.Unstructured {
	c.Helper()
	object := &unstructured.Unstructured{}
	c.must(yaml.Unmarshal([]byte(text), &object.Object))
	object.SetAPIVersion(v1alpha1.GroupVersion().String())
	object.SetGenerateName("test-")
	return object
}

// client returns the client for the kind of an object.
func (c *cluster) client(object *unstructured.Unstructured) dynamic.ResourceInterface {
	c.Helper()
	kind := object.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	client := c.dynamic.Resource(resource)
	if strings.HasPrefix(kind.Kind, "NetworkFence") {
		return client
	}
	return client.Namespace("default")
}
