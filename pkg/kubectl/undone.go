package kubectl

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// undoneFor is how long an edit that the operator has undone is reported.
const undoneFor = time.Hour

// lastChange returns when an object, without its status, was last changed.
func lastChange(o metav1.Object) (last time.Time) {
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(last) {
			last = m.Time.Time
		}
	}
	return last
}

// specHash is the annotation in which the operator writes what it wants a workload to be.
// Kubernetes copies it to what keeps an earlier pod template.
const specHash = "operator.openshift.io/spec-hash"

// undone returns a warning for each workload of which the operator has undone an edit: the pods
// have an earlier template again, and the operator wanted the same while they had another one. Who
// made the edit is not recorded any more then.
func (s *system) undone() (findings []diagnosis.Finding) {
	add := func(workload metav1.Object, of []template) {
		if len(of) > 1 && of[0].since.Before(of[1].since) && of[1].wanted != "" &&
			of[1].wanted == workload.GetAnnotations()[specHash] &&
			s.clock.Since(of[0].again(of[1])) < undoneFor {
			findings = append(findings, s.undoneIn(workload, of[1], of[0]))
		}
	}
	if s.controller != nil {
		add(s.controller, templatesOfReplicaSets(s.controller, s.replicaSets))
	}
	for i := range s.nodes {
		add(&s.nodes[i], templatesOfRevisions(&s.nodes[i], s.revisions))
	}
	return findings
}

// undoneIn says what was edited, and where to set it instead.
func (s *system) undoneIn(workload metav1.Object, edited, now template) diagnosis.Finding {
	f := diagnosis.Finding{
		Severity: Warning, Type: "EditUndone", Reason: "EditUndone",
		Since: metav1.NewTime(now.again(edited)),
		Next:  "What can be chosen: " + version.Page("docs/volumes.md#options-of-the-pods"),
	}
	fields := changedFields(edited.pod, now.pod)
	f.Message = fmt.Sprintf("somebody has edited %s of %s %s, and the operator has undone it: it "+
		"writes the whole spec", diagnosis.List(fields), diagnosis.NewWorkload(workload, nil).Kind,
		workload.GetName())
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = workload.GetNamespace(), workload.GetName()+"-"
	for _, option := range reflect.VisibleFields(reflect.TypeFor[choice.PodOptions]()) {
		name, _, _ := strings.Cut(option.Tag.Get("json"), ",")
		if slices.Contains(fields, name) {
			f.Next = "Set " + fmt.Sprintf(s.settingOf(pod), name)
		}
	}
	return f
}

// changedFields returns the fields in which the pods of two templates differ. Those of containers
// are containers, or resources if nothing else differs.
func changedFields(before, now *corev1.PodTemplateSpec) (names []string) {
	fieldsOf := func(t *corev1.PodTemplateSpec) map[string]any {
		pod := t.DeepCopy()
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Resources = corev1.ResourceRequirements{}
		}
		all, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec) // typed: cannot fail
		all["labels"], all["annotations"] = pod.Labels, pod.Annotations
		return all
	}
	a, b := fieldsOf(before), fieldsOf(now)
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !reflect.DeepEqual(a[name], b[name]) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{"resources"}
	}
	return names
}
