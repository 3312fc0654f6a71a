package kubectl

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// rolling is a driver whose workloads change each minute, and what Kubernetes keeps of them.
type rolling struct {
	*system

	number int
}

func newRolling() *rolling {
	s := &session{options: &options{}, guest: &cluster{flavour: flavour.Of(false)}}
	s.clock = clocktesting.NewFakeClock(generatedAt())
	r := &rolling{system: &system{session: s, of: s.guest.drivers()[0]}}
	r.controller, r.nodes = &appsv1.Deployment{}, make([]appsv1.DaemonSet, 1)
	for _, o := range []metav1.Object{r.controller, &r.nodes[0]} {
		o.SetNamespace(r.of.namespace)
		o.SetUID("one")
	}
	r.controller.Name, r.nodes[0].Name = r.of.controller, r.of.nodes[0]
	return r
}

// write is what the operator does: it writes the whole spec, and the hash of it.
func (r *rolling) write(t *testing.T, options choice.PodOptions) {
	t.Helper()
	c := &choice.Config{}
	c.Pods.Controller.PodOptions, c.Pods.Node = options, options
	pods := corev1.PodTemplateSpec{}
	pods.Labels = map[string]string{"app": "driver"}
	pods.Spec.Containers = []corev1.Container{{Name: "csi-driver"}}
	r.controller.Spec.Template, r.nodes[0].Spec.Template = *pods.DeepCopy(), *pods.DeepCopy()
	c.ApplyToController(r.controller)
	c.ApplyToNodes(&r.nodes[0].Spec.Template)
	hash := resourceapply.SetSpecHashAnnotation
	assert.NilError(t, hash(&r.controller.ObjectMeta, r.controller.Spec))
	assert.NilError(t, hash(&r.nodes[0].ObjectMeta, r.nodes[0].Spec))
	r.observe(t)
}

// edit is what somebody else does.
func (r *rolling) edit(t *testing.T, options choice.PodOptions) {
	t.Helper()
	c := &choice.Config{}
	c.Pods.Controller.PodOptions, c.Pods.Node = options, options
	c.ApplyToController(r.controller)
	c.ApplyToNodes(&r.nodes[0].Spec.Template)
	r.observe(t)
}

// observe does what the controllers of Deployments and DaemonSets do after a change of the
// template. Both copy the annotations to a new object, but only the first to one that exists.
func (r *rolling) observe(t *testing.T) {
	t.Helper()
	r.clock.(*clocktesting.FakeClock).Step(time.Minute)
	r.number++
	meta := func(workload metav1.Object, kind string) metav1.ObjectMeta {
		owner := metav1.NewControllerRef(workload, appsv1.SchemeGroupVersion.WithKind(kind))
		m := metav1.ObjectMeta{
			CreationTimestamp: metav1.NewTime(r.clock.Now()), Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*owner},
		}
		for key, value := range workload.GetAnnotations() {
			m.Annotations[key] = value
		}
		m.Annotations["deployment.kubernetes.io/revision"] = fmt.Sprint(r.number)
		return m
	}
	changed := []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: r.clock.Now()}}}
	set := appsv1.ReplicaSet{ObjectMeta: meta(r.controller, "Deployment")}
	set.Spec.Template = *r.controller.Spec.Template.DeepCopy()
	known := false
	for i, one := range r.replicaSets {
		if reflect.DeepEqual(one.Spec.Template, set.Spec.Template) {
			r.replicaSets[i].Annotations, known = set.Annotations, true
			r.replicaSets[i].ManagedFields = changed
		}
	}
	if !known {
		r.replicaSets = append(r.replicaSets, set)
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{
		"template": r.nodes[0].Spec.Template,
	}})
	assert.NilError(t, err)
	revision := appsv1.ControllerRevision{
		ObjectMeta: meta(&r.nodes[0], "DaemonSet"), Revision: int64(r.number),
		Data: runtime.RawExtension{Raw: data},
	}
	for i, one := range r.revisions {
		if string(one.Data.Raw) == string(data) {
			r.revisions[i].Revision, r.revisions[i].ManagedFields = revision.Revision, changed
			return
		}
	}
	r.revisions = append(r.revisions, revision)
}

// chosen returns two values of each option of pods, by its field.
func chosen() map[string][2]choice.PodOptions {
	all := map[string][2]choice.PodOptions{}
	for i := range 2 {
		add := func(name string, options choice.PodOptions) {
			values := all[name]
			values[i] = options
			all[name] = values
		}
		word := fmt.Sprintf("v%d", i)
		words := map[string]string{"a": word}
		add("labels", choice.PodOptions{Labels: words})
		add("annotations", choice.PodOptions{Annotations: words})
		add("nodeSelector", choice.PodOptions{NodeSelector: words})
		add("tolerations", choice.PodOptions{Tolerations: []corev1.Toleration{{Key: word}}})
		add("affinity", choice.PodOptions{Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.
				PreferredSchedulingTerm{{Weight: int32(i)}}},
		}})
		add("priorityClassName", choice.PodOptions{PriorityClassName: word})
		add("imagePullSecrets", choice.PodOptions{
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: word}},
		})
		add("hostAliases", choice.PodOptions{HostAliases: []corev1.HostAlias{{IP: word}}})
		add("resources", choice.PodOptions{Resources: map[string]corev1.ResourceRequirements{
			"csi-driver": {Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(word[1:])}},
		}})
	}
	return all
}

// TestOnlyWhatOthersHaveEditedIsUndone sets, replaces and removes each choice. An edit to the same
// value as an earlier choice is one, too.
func TestOnlyWhatOthersHaveEditedIsUndone(t *testing.T) {
	t.Parallel()
	none, all := choice.PodOptions{}, chosen()
	for _, option := range reflect.VisibleFields(reflect.TypeFor[choice.PodOptions]()) {
		name, _, _ := strings.Cut(option.Tag.Get("json"), ",")
		values, found := all[name]
		assert.Assert(t, found, name)
		for _, wants := range [][]choice.PodOptions{
			{none, values[0], none},
			{none, values[0], values[1], values[0], none, values[1]},
			{values[0], none, values[0], none},
			{values[0], values[1], values[0]},
		} {
			r := newRolling()
			for _, want := range wants {
				r.write(t, want)
				assert.Equal(t, len(r.undone()), 0, "%s: %v", name, r.undone())
			}
		}
		r := newRolling()
		r.write(t, none)
		r.edit(t, values[0])
		r.write(t, none)
		messages := map[string]diagnosis.Finding{}
		for _, f := range r.undone() {
			messages[f.Message] = f
		}
		for workload, of := range map[string]string{
			"Deployment " + r.of.controller: "controller", "DaemonSet " + r.of.nodes[0]: "node",
		} {
			f := messages["somebody has edited "+name+" of "+workload+
				", and the operator has undone it: it writes the whole spec"]
			assert.Equal(t, f.Next, "Set spec.pods."+of+"."+name+" of CinderDriver "+r.of.name)
		}
		r.write(t, values[0]) // what the warning says, and then no longer
		r.write(t, none)
		assert.Equal(t, len(r.undone()), 0, "%s: %v", name, r.undone())
	}
}
