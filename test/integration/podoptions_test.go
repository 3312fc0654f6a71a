//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// podOption is a field of choice.PodOptions: a value, what pods with it contain, and one that is
// refused with a problem, which is that of the API server if possible. Its structure is wrong if no
// value is, and the API server is not asked then.
type podOption struct {
	value, seen, wrong, problem string
	structure                   bool
}

func podOptions() map[string]podOption {
	const preferred = "{nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
		"[{weight: %d, preference: {matchExpressions: [{key: preferred, operator: Exists}]}}]}}"
	return map[string]podOption{
		"labels": {
			"{example.com/a: label}", `"example.com/a":"label"`,
			"{example.com/a: '!'}", `labels: Invalid value: "!"`, false,
		},
		"annotations": {
			"{example.com/b: annotation}", `"example.com/b":"annotation"`,
			"{'a b': x}", `annotations: Invalid value: "a b"`, false,
		},
		"nodeSelector": {
			"{example.com/c: node}", `"example.com/c":"node"`,
			"{example.com/c: '!'}", `nodeSelector: Invalid value: "!"`, false,
		},
		"tolerations": {
			"[{key: tolerated, operator: Exists}]",
			`"tolerations":[{"key":"tolerated","operator":"Exists"}]`,
			"[{key: tolerated, effect: Never}]", `tolerations[0].effect: Unsupported value: "Never"`, false,
		},
		"affinity": {
			fmt.Sprintf(preferred, 7), `"weight":7,"preference":{"matchExpressions":[{"key":"preferred"`,
			fmt.Sprintf(preferred, 0), "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuring" +
				"Execution[0].weight: Invalid value: 0", false,
		},
		"priorityClassName": {
			"system-cluster-critical", `"priorityClassName":"system-cluster-critical"`,
			// The ClusterRole cannot read them.
			"[a]", "priorityClassName: must be a text, not a list", true,
		},
		"imagePullSecrets": {
			"[{name: registry}]", `"imagePullSecrets":[{"name":"registry"}]`,
			"[{names: registry}]", `imagePullSecrets[0].names": did you mean "name"?`, true,
		},
		"hostAliases": {
			"[{ip: 192.0.2.1, hostnames: [keystone]}]",
			`"hostAliases":[{"ip":"192.0.2.1","hostnames":["keystone"]}]`,
			"[{ip: keystone}]", `hostAliases[0].ip: Invalid value: "keystone"`, false,
		},
		"resources": {
			"{csi-driver: {requests: {cpu: 17m}}}", `"resources":{"requests":{"cpu":"17m"}}`,
			"{csi-driver: {requests: {cpu: 2}, limits: {cpu: 1}}}",
			`resources[csi-driver].requests: Invalid value: "2"`, false,
		},
	}
}

// TestOptionsOfPods sets each field of pods, and then wrong values, which change no workload.
func TestOptionsOfPods(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]subject{"Manila": manila(), "Cinder": cinder()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, options{Subject: of})
			e.awaitAvailable()
			e.optionsOfPods(name)
		})
	}
}

// TestOptionsOfNodePluginsInAGuestCluster checks that a dry run in the guest cluster decides about
// node plugins, and that nothing decides about pods in the management cluster.
func TestOptionsOfNodePluginsInAGuestCluster(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Flavour: flavour.HyperShift})
	e.awaitAvailable()
	e.awaitNoWrites()
	before := e.workloads()
	for choices, problem := range map[string]string{
		"{controller: {replicas: 1}}": "pods.controller: Forbidden: remove the field: on HyperShift",
		"{node: {priorityClassName: missing, tolerations: [{effect: Never}]}}": "pods.node." +
			`priorityClassName: Not found: "missing"`,
	} {
		e.choose("pods: " + choices + "\n")
		e.eventually(prompt, func() error {
			return e.hasCondition(manilaConfigValid, opv1.ConditionFalse, "Invalid", "line 3: "+problem)
		})
		e.mustHaveWorkloads(before)
	}
	e.choose("pods: {node: {priorityClassName: system-cluster-critical}}\n")
	e.eventually(soon, func() error {
		w, err := e.workload(nodeName)
		if err != nil {
			return err
		}
		return checkEqual("system-cluster-critical", w.Pod.PriorityClassName)
	})
}

func (e *env) optionsOfPods(name string) {
	e.t.Helper()
	all := podOptions()
	choose := func(wrong ...string) {
		e.t.Helper()
		var fields []string
		for field, option := range all {
			value := option.value
			if slices.Contains(wrong, field) {
				value = option.wrong
			}
			fields = append(fields, field+": "+value)
		}
		part := strings.Join(fields, ", ")
		e.must(e.management.putConfigMap(e.ctx(), e.userConfigNamespace(),
			strings.ToLower(name)+"-csi-config", map[string]string{"operator.yaml": "apiVersion: " +
				choice.APIVersion + "\nkind: " + name + "Config\npods:\n  node: {" + part +
				"}\n  controller: {replicas: 3, " + part + "}\n"}))
	}
	choose()
	e.eventually(soon, func() error { return e.podsHave(all) })
	e.awaitNoWrites()
	before := e.workloads()
	wrong := map[bool][]string{}
	for _, f := range choice.Fields("", reflect.TypeFor[choice.PodOptions]()) {
		field := choice.FieldName(f)
		option, found := all[field]
		assert.Assert(e.t, found, "the table does not contain %s", field)
		wrong[option.structure] = append(wrong[option.structure], field)
	}
	groups := slices.AppendSeq([][]string{wrong[true]}, slices.Chunk(wrong[false], 3))
	for _, fields := range groups { // a condition has room for a few messages
		problems := []string{"line 4: ", "line 5: "}
		for _, field := range fields {
			problems = append(problems, "pods.node."+all[field].problem,
				"pods.controller."+all[field].problem)
		}
		choose(fields...)
		e.eventually(prompt, func() error {
			return e.hasCondition(name+"UserConfigValid", opv1.ConditionFalse, "Invalid", problems...)
		})
		e.mustHaveWorkloads(before)
	}
	choose()
	e.eventually(prompt, func() error {
		return e.hasCondition(name+"UserConfigValid", opv1.ConditionTrue, "AsExpected")
	})
	e.mustHaveWorkloads(before)
}

// podsHave returns nil if the pods of each workload have all options.
func (e *env) podsHave(all map[string]podOption) error {
	deployment, err := e.deployment()
	if err != nil {
		return err
	}
	templates := []corev1.PodTemplateSpec{deployment.Spec.Template}
	errs := []error{checkEqual(int32(3), *deployment.Spec.Replicas)}
	for _, name := range e.subject.Workloads[1:] {
		daemonSet, err := e.daemonSet(name)
		if err != nil {
			return err
		}
		templates = append(templates, daemonSet.Spec.Template)
	}
	for _, template := range templates {
		text, err := json.Marshal(template)
		errs = append(errs, err)
		for field, option := range all {
			if !strings.Contains(string(text), option.seen) {
				errs = append(errs, fmt.Errorf("%s: %s is not in %s", field, option.seen, text))
			}
		}
	}
	return errors.Join(errs...)
}
