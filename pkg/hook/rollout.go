package hook

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
)

// InputsAnnotation is on the workload itself, not on its pods: a list of `kind/name=hash`, one for each input.
const InputsAnnotation = "operator.openshift.io/rollout-inputs"

// absent stands for the hash of an object that was not there yet.
const absent = "absent"

// RollOutDeployment writes a hash of each input of hooks into the pod template, so that pods roll out when an input changes. It
// lists the inputs in InputsAnnotation and emits an event that names the input when one changes or is missing. deployments must
// have the Deployment as it is in the cluster.
func RollOutDeployment(key *Key, deployments appslisters.DeploymentLister, recorder events.Recorder, hooks []Workload) Workload {
	r := newRollout("Deployment", key, recorder, hooks)
	return Workload{Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
		before, err := deployments.Deployments(d.Namespace).Get(d.Name)
		if err != nil {
			return r.apply(&d.ObjectMeta, &d.Spec.Template, inCluster{}, err)
		}
		return r.apply(&d.ObjectMeta, &d.Spec.Template, inCluster{before.Annotations, before.Spec.Template.Annotations}, nil)
	}}
}

// RollOutDaemonSet is RollOutDeployment for a DaemonSet.
func RollOutDaemonSet(key *Key, daemonSets appslisters.DaemonSetLister, recorder events.Recorder, hooks []Workload) Workload {
	r := newRollout("DaemonSet", key, recorder, hooks)
	return Workload{DaemonSet: func(_ *opv1.OperatorSpec, d *appsv1.DaemonSet) error {
		before, err := daemonSets.DaemonSets(d.Namespace).Get(d.Name)
		if err != nil {
			return r.apply(&d.ObjectMeta, &d.Spec.Template, inCluster{}, err)
		}
		return r.apply(&d.ObjectMeta, &d.Spec.Template, inCluster{before.Annotations, before.Spec.Template.Annotations}, nil)
	}}
}

// inCluster are the annotations of a workload and of its pod template as they are in the cluster; none before it is created.
type inCluster struct{ workload, template map[string]string }

// rollout belongs to one workload.
type rollout struct {
	kind     string
	key      *Key
	recorder events.Recorder
	inputs   []RolloutInput
	// announced is the list that the last event about a change was about: the cache may be older.
	announced string
	// missed are the inputs that the last event about missing inputs was about.
	missed []string
}

func newRollout(kind string, key *Key, recorder events.Recorder, hooks []Workload) *rollout {
	r := &rollout{kind: kind, key: key, recorder: recorder}
	for _, h := range hooks {
		r.inputs = append(r.inputs, h.RolloutInputs...)
	}
	return r
}

// apply annotates the workload and its pods. err is why the annotations in the cluster are not known.
func (r *rollout) apply(workload *metav1.ObjectMeta, template *corev1.PodTemplateSpec, before inCluster, err error) error {
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("reading %s %s/%s: %w", r.kind, workload.Namespace, workload.Name, err)
	}
	hashes := map[string]string{}
	var missing []string
	for _, input := range r.inputs {
		annotation := input.annotation(workload.Namespace)
		hash, err := r.hash(input, workload.Namespace)
		if err != nil {
			return fmt.Errorf("hashing %s %s/%s: %w", input.Kind, workload.Namespace, input.Name, err)
		}
		switch last := before.template[annotation]; {
		case hash == absent && last != "":
			hash, missing = last, append(missing, input.Kind+" "+workload.Namespace+"/"+input.Name)
		// A hash of another key may be of the same content: an upgrade rolls out once, not twice.
		case hash != last && r.key.made(last) && input.hold != nil && input.hold():
			hash = last
		}
		hashes[input.id()] = strings.TrimRight(hash, "=")
		if hash == absent {
			continue
		}
		metav1.SetMetaDataAnnotation(workload, annotation, hash)
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, annotation, hash)
		if input.use == nil {
			continue
		}
		if err := input.use(&template.Spec, workload.Annotations); err != nil {
			return fmt.Errorf("adding %s %s/%s to the pods: %w", input.Kind, workload.Namespace, input.Name, err)
		}
	}
	r.explain(workload, before.workload, hashes)
	r.warn(workload, missing)
	return nil
}

func (r *rollout) hash(input RolloutInput, namespace string) (string, error) {
	content, err := input.content()
	if err != nil || content == nil {
		return absent, err
	}
	return r.key.hash(input.Kind+" "+namespace+"/"+input.Name, content)
}

// explain lists the hashes and says what has changed.
func (r *rollout) explain(workload *metav1.ObjectMeta, before, hashes map[string]string) {
	list := formatInputs(hashes)
	metav1.SetMetaDataAnnotation(workload, InputsAnnotation, list)
	earlier, listed := before[InputsAnnotation]
	if changes := r.difference(parseInputs(earlier), hashes); listed && len(changes) > 0 && list != r.announced {
		r.recorder.Eventf("RolloutInputChanged", "%s %s/%s rolls out: %s", r.kind, workload.Namespace, workload.Name, strings.Join(changes, ", "))
		r.announced = list
	}
}

// warn emits an event about inputs that were there before.
func (r *rollout) warn(workload *metav1.ObjectMeta, missing []string) {
	if len(missing) > 0 && !slices.Equal(missing, r.missed) {
		r.recorder.Warningf("RolloutInputMissing", "%s is missing. %s %s/%s does not roll out, its running pods keep what they have read; new pods may not start until it is back",
			strings.Join(missing, ", "), r.kind, workload.Namespace, workload.Name)
	}
	r.missed = missing
}

// difference says what became of each input, sorted. Of a hash that was made with another key nobody can say whether the content
// is another.
func (r *rollout) difference(before, now map[string]string) []string {
	var changes []string
	for _, input := range slices.Sorted(maps.Keys(now)) {
		earlier, listed := before[input]
		switch {
		case earlier == now[input] || now[input] == absent:
		case !listed || earlier == absent:
			changes = append(changes, input+" has come")
		case r.key.made(earlier):
			changes = append(changes, input+" has changed")
		}
	}
	return changes
}

// id is the input's name in InputsAnnotation.
func (i RolloutInput) id() string {
	return strings.ToLower(i.Kind) + "/" + i.Name
}

// annotation is the key of the input's hash. It is library-go's, so that the hash replaces the one that earlier releases wrote.
func (i RolloutInput) annotation(namespace string) string {
	const longest = 63
	name := fmt.Sprintf("%s.%s.%s", namespace, i.Name, strings.ToLower(i.Kind))
	if key := annotationPrefix + name; len(key) <= longest {
		return key
	}
	return fmt.Sprintf("%s%x", annotationPrefix, sha256.Sum256([]byte(name)))[:longest]
}

const annotationPrefix = "operator.openshift.io/dep-"

func formatInputs(hashes map[string]string) string {
	var parts []string
	for _, input := range slices.Sorted(maps.Keys(hashes)) {
		parts = append(parts, input+"="+hashes[input])
	}
	return strings.Join(parts, ",")
}

func parseInputs(list string) map[string]string {
	hashes := map[string]string{}
	for part := range strings.SplitSeq(list, ",") {
		if input, hash, ok := strings.Cut(part, "="); ok {
			hashes[input] = hash
		}
	}
	return hashes
}
