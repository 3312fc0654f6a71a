package hook

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// absent replaces the hash of an object that has not existed yet.
const absent = "absent"

// RollOutDeployment writes a hash of each rollout input of hooks into the pod template, so that the
// Deployment rolls out when an input changes. It lists the inputs in diagnosis.InputsAnnotation,
// and emits an event that names an input that changed or is missing. deployed returns the
// Deployment of the cluster, nil if there is none.
func RollOutDeployment(
	key *Key, deployed func() *appsv1.Deployment, recorder events.Recorder, hooks []Workload,
) Workload {
	r := newRollout("Deployment", key, recorder, hooks)
	return Workload{Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
		current := cmp.Or(deployed(), &appsv1.Deployment{})
		return r.apply(&d.ObjectMeta, &d.Spec.Template, &current.ObjectMeta, &current.Spec.Template)
	}}
}

// RollOutDaemonSet is RollOutDeployment for a DaemonSet.
func RollOutDaemonSet(
	key *Key, deployed func() *appsv1.DaemonSet, recorder events.Recorder, hooks []Workload,
) Workload {
	r := newRollout("DaemonSet", key, recorder, hooks)
	return Workload{DaemonSet: func(_ *opv1.OperatorSpec, d *appsv1.DaemonSet) error {
		current := cmp.Or(deployed(), &appsv1.DaemonSet{})
		return r.apply(&d.ObjectMeta, &d.Spec.Template, &current.ObjectMeta, &current.Spec.Template)
	}}
}

type rollout struct {
	kind     string
	key      *Key
	recorder events.Recorder
	inputs   []RolloutInput
	// lastChanged is the list of the last event about changes. It may be newer than the cache.
	lastChanged string
	// lastMissing contains the inputs of the last event about missing inputs.
	lastMissing []string
}

func newRollout(kind string, key *Key, recorder events.Recorder, hooks []Workload) *rollout {
	r := &rollout{kind: kind, key: key, recorder: recorder}
	for _, h := range hooks {
		r.inputs = append(r.inputs, h.RolloutInputs...)
	}
	return r
}

// apply annotates the workload and its pods. current and pods are those in the cluster. Pods keep
// the hashes of objects that were inputs in an earlier release: a removal would roll them out.
func (r *rollout) apply(
	workload *metav1.ObjectMeta, template *corev1.PodTemplateSpec,
	current *metav1.ObjectMeta, pods *corev1.PodTemplateSpec,
) error {
	for annotation, hash := range pods.Annotations {
		if strings.HasPrefix(annotation, diagnosis.AnnotationPrefix) {
			metav1.SetMetaDataAnnotation(&template.ObjectMeta, annotation, hash)
		}
	}
	hashes := map[string]string{}
	var missing []string
	for _, input := range r.inputs {
		annotation := diagnosis.InputAnnotation(workload.Namespace, input.Kind, input.Name)
		last := pods.Annotations[annotation]
		object := input.Kind + " " + workload.Namespace + "/" + input.Name
		hash, err := r.hash(input, object)
		if err != nil {
			return fmt.Errorf("hashing %s: %w", object, err)
		}
		switch {
		case hash == absent && input.keep != nil:
			hash = cmp.Or(last, absent)
			input.keep(&template.Spec, &pods.Spec)
		case hash == absent && last != "":
			hash, missing = last, append(missing, object)
		}
		hashes[input.id()] = strings.TrimRight(hash, "=")
		if hash == absent {
			if input.omit != nil {
				input.omit(&template.Spec)
			}
			continue
		}
		metav1.SetMetaDataAnnotation(workload, annotation, hash)
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, annotation, hash)
		if input.use == nil {
			continue
		}
		if err := input.use(&template.Spec, workload.Annotations); err != nil {
			return fmt.Errorf("adding %s to the pods: %w", object, err)
		}
	}
	r.reportChanges(workload, current.Annotations, hashes)
	r.reportMissing(workload, missing)
	return nil
}

func (r *rollout) hash(input RolloutInput, object string) (string, error) {
	content := input.content()
	if content == nil {
		return absent, nil
	}
	return r.key.hash(object, content)
}

// reportChanges sets diagnosis.InputsAnnotation and emits an event about changes.
func (r *rollout) reportChanges(workload *metav1.ObjectMeta, current, hashes map[string]string) {
	list := labels.Set(hashes).String()
	metav1.SetMetaDataAnnotation(workload, diagnosis.InputsAnnotation, list)
	earlier, listed := current[diagnosis.InputsAnnotation]
	changes := r.changes(diagnosis.ParseInputs(earlier), hashes)
	if listed && len(changes) > 0 && list != r.lastChanged {
		r.recorder.Eventf("RolloutInputChanged", "%s %s/%s: rollout triggered: %s",
			r.kind, workload.Namespace, workload.Name, strings.Join(changes, ", "))
		r.lastChanged = list
	}
}

func (r *rollout) reportMissing(workload *metav1.ObjectMeta, missing []string) {
	if len(missing) > 0 && !slices.Equal(missing, r.lastMissing) {
		r.recorder.Warningf("RolloutInputMissing", "%s is missing. %s %s/%s does not roll out: running "+
			"pods keep the content they have read; new pods may not start until it exists again",
			strings.Join(missing, ", "), r.kind, workload.Namespace, workload.Name)
	}
	r.lastMissing = missing
}

// changes describes the change of each input, sorted. It leaves out hashes of another key, which
// cannot be compared.
func (r *rollout) changes(before, now map[string]string) []string {
	var changes []string
	for _, input := range slices.Sorted(maps.Keys(now)) {
		earlier, listed := before[input]
		switch {
		case earlier == now[input] || now[input] == absent:
		case !listed || earlier == absent:
			changes = append(changes, input+" created")
		case r.key.made(earlier):
			changes = append(changes, input+" changed")
		}
	}
	return changes
}

// id returns the name of the input in diagnosis.InputsAnnotation.
func (i RolloutInput) id() string {
	return strings.ToLower(i.Kind) + "/" + i.Name
}
