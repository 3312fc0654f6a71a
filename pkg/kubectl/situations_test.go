package kubectl

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// situation is what is wrong in a cluster, and what the first lines of a command should say.
type situation struct {
	Name      string           `json:"name"`
	Args      string           `json:"args"`
	Objects   []map[string]any `json:"objects"`
	Remove    []string         `json:"remove"` // kind and name
	Forbidden []string         `json:"forbidden"`
	Denied    []string         `json:"denied"` // verb and resource
	// Conditions are status, reason and message of conditions by driver and type.
	Conditions map[string]map[string][3]string `json:"conditions"`
	// First is how the output starts, without line breaks. It contains Has, and Never in no line.
	First string `json:"first"`
	Has   string `json:"has"`
	Never string `json:"never"`
	Code  int    `json:"code"`
	// Log is that of each container. Without it logs may not be read.
	Log string `json:"log"`
}

// situations reads testdata/situations.yaml. Objects are completed from objects.yaml, or else from
// the template of their kind.
func situations(t *testing.T) (all []situation, scenarios []*scenario) {
	t.Helper()
	var table struct {
		Templates  []map[string]any `json:"templates"`
		Situations []situation      `json:"situations"`
	}
	decode(t, "testdata/situations.yaml", &table)
	var cluster []map[string]any
	decode(t, "testdata/objects.yaml", &cluster)
	for _, one := range table.Situations {
		s := &scenario{Args: one.Args, Remove: one.Remove, Forbidden: one.Forbidden, Denied: one.Denied}
		for _, object := range one.Objects {
			base := lookUp(cluster, object)
			if base == nil {
				base = lookUp(table.Templates, map[string]any{"kind": object["kind"]})
			}
			s.Objects = append(s.Objects, completed(base, object))
		}
		for driver, conditions := range one.Conditions {
			object := map[string]any{
				"kind": "ClusterCSIDriver", "metadata": map[string]any{"name": driver},
			}
			var list []any
			for name, c := range conditions {
				list = append(list, map[string]any{
					"type": name, "status": c[0], "reason": c[1], "message": c[2],
					"lastTransitionTime": "2026-11-24T11:48:00Z",
				})
			}
			change := map[string]any{"status": map[string]any{"conditions": list}}
			s.Objects = append(s.Objects, completed(lookUp(cluster, object), change))
		}
		scenarios = append(scenarios, s)
	}
	return table.Situations, scenarios
}

// lookUp returns the object with the kind, and the name if there is one; nil if there is none.
func lookUp(all []map[string]any, like map[string]any) map[string]any {
	wanted := unstructured.Unstructured{Object: like}
	for _, object := range all {
		u := unstructured.Unstructured{Object: object}
		if u.GetKind() == wanted.GetKind() &&
			(u.GetName() == wanted.GetName() || like["metadata"] == nil) {
			return object
		}
	}
	return nil
}

func completed(base, change map[string]any) unstructured.Unstructured {
	u := unstructured.Unstructured{Object: merged(base, change).(map[string]any)}
	if u.GetKind() == "Event" {
		involved := u.Object["involvedObject"].(map[string]any)
		u.SetName(involved["uid"].(string) + "." + u.Object["reason"].(string))
	}
	if u.GetUID() == "" {
		_ = unstructured.SetNestedField(u.Object, u.GetName(), "metadata", "uid")
	}
	return u
}

// merged replaces what differs. Conditions are merged by type.
func merged(base, change any) any {
	to, isMap := change.(map[string]any)
	from, wasMap := base.(map[string]any)
	if !isMap || !wasMap {
		return change
	}
	all := map[string]any{}
	for key, value := range from {
		all[key] = value
	}
	for key, value := range to {
		all[key] = merged(from[key], value)
		if earlier, ok := from[key].([]any); key == "conditions" && ok {
			all[key] = conditions(earlier, value.([]any))
		}
	}
	return all
}

func conditions(earlier, changed []any) []any {
	all := append([]any{}, changed...)
	for _, e := range earlier {
		replaced := false
		for _, c := range changed {
			replaced = replaced || c.(map[string]any)["type"] == e.(map[string]any)["type"]
		}
		if !replaced {
			all = append(all, e)
		}
	}
	return all
}

// The first line says what stops the object, where, and what to do.
func TestFirstLineIsTheCause(t *testing.T) {
	t.Parallel()
	all, scenarios := situations(t)
	for i, one := range all {
		t.Run(strings.ReplaceAll(one.Name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			o := scenarios[i].options(t)
			if one.Log != "" {
				o.readLogs = logsOf(func(*corev1.Pod) (string, error) { return one.Log, nil })
			}
			code, stdout, stderr := run(t, o, false, strings.Fields(one.Args)...)
			got := strings.Join(strings.Fields(stdout+stderr), " ")
			if !strings.HasPrefix(got, one.First) || code != one.Code || !strings.Contains(got, one.Has) ||
				one.Never != "" && strings.Contains(got, one.Never) {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", code, one.Code, one.First, stdout, stderr)
			}
		})
	}
}
