package hook

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourcehash"
)

// InputsAnnotation is on the workload itself, not on its pods: a list of `kind/name=hash`, one for each input.
const InputsAnnotation = "operator.openshift.io/rollout-inputs"

// absent stands for the hash of an object that is not there.
const absent = "absent"

// Input is an object whose content rolls a workload out when it changes.
type Input struct {
	// Kind and Name of the object; its namespace is the workload's.
	Kind, Name string
	// hash is of the content as cached, absent for an object that is not there.
	hash func() (string, error)
}

func secretInput(secrets corelisters.SecretLister, namespace, name string) Input {
	return Input{"Secret", name, func() (string, error) {
		secret, err := secrets.Secrets(namespace).Get(name)
		if err != nil {
			return absent, ignoreNotFound(err)
		}
		return resourcehash.GetSecretHash(secret)
	}}
}

func configMapInput(configMaps corelisters.ConfigMapLister, namespace, name string) Input {
	return Input{"ConfigMap", name, func() (string, error) {
		configMap, err := configMaps.ConfigMaps(namespace).Get(name)
		if err != nil {
			return absent, ignoreNotFound(err)
		}
		return resourcehash.GetConfigMapHash(configMap)
	}}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ExplainDeployment lets people see why pods rolled out: it lists the inputs of hooks in an annotation of the Deployment, and
// makes an event that names the input when one changes. The hashes in library-go's own annotations tell neither. deployments must
// have the Deployment as it is in the cluster.
func ExplainDeployment(deployments appslisters.DeploymentLister, recorder events.Recorder, hooks []Workload) Workload {
	e := newExplainer("Deployment", recorder, hooks)
	return Workload{Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
		before, err := deployments.Deployments(d.Namespace).Get(d.Name)
		if err != nil {
			return e.explain(&d.ObjectMeta, nil, err)
		}
		return e.explain(&d.ObjectMeta, before.Annotations, nil)
	}}
}

// ExplainDaemonSet is the same for a DaemonSet.
func ExplainDaemonSet(daemonSets appslisters.DaemonSetLister, recorder events.Recorder, hooks []Workload) Workload {
	e := newExplainer("DaemonSet", recorder, hooks)
	return Workload{DaemonSet: func(_ *opv1.OperatorSpec, d *appsv1.DaemonSet) error {
		before, err := daemonSets.DaemonSets(d.Namespace).Get(d.Name)
		if err != nil {
			return e.explain(&d.ObjectMeta, nil, err)
		}
		return e.explain(&d.ObjectMeta, before.Annotations, nil)
	}}
}

// explainer belongs to one workload.
type explainer struct {
	kind     string
	recorder events.Recorder
	inputs   []Input
	// announced is the list that the last event was about: the cache may be older.
	announced string
}

func newExplainer(kind string, recorder events.Recorder, hooks []Workload) *explainer {
	e := &explainer{kind: kind, recorder: recorder}
	for _, h := range hooks {
		e.inputs = append(e.inputs, h.Inputs...)
	}
	return e
}

// explain annotates the workload. before are the annotations that it has in the cluster, and err is why they are not known.
func (e *explainer) explain(workload *metav1.ObjectMeta, before map[string]string, err error) error {
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("reading %s %s/%s: %w", e.kind, workload.Namespace, workload.Name, err)
	}
	hashes, err := e.hashes(workload.Namespace)
	if err != nil {
		return err
	}
	list := formatInputs(hashes)
	metav1.SetMetaDataAnnotation(workload, InputsAnnotation, list)
	earlier, listed := before[InputsAnnotation]
	if changes := difference(parseInputs(earlier), hashes); listed && len(changes) > 0 && list != e.announced {
		e.recorder.Eventf("RolloutInputChanged", "%s %s/%s rolls out: %s", e.kind, workload.Namespace, workload.Name, strings.Join(changes, ", "))
		e.announced = list
	}
	return nil
}

func (e *explainer) hashes(namespace string) (map[string]string, error) {
	hashes := map[string]string{}
	for _, input := range e.inputs {
		hash, err := input.hash()
		if err != nil {
			return nil, fmt.Errorf("hashing %s %s/%s: %w", input.Kind, namespace, input.Name, err)
		}
		hashes[strings.ToLower(input.Kind)+"/"+input.Name] = strings.TrimRight(hash, "=")
	}
	return hashes, nil
}

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

// difference says what became of each input, sorted.
func difference(before, now map[string]string) []string {
	var changes []string
	for _, input := range slices.Sorted(maps.Keys(now)) {
		earlier, listed := before[input]
		switch {
		case earlier == now[input]:
		case now[input] == absent:
			changes = append(changes, input+" is gone")
		case !listed || earlier == absent:
			changes = append(changes, input+" has come")
		default:
			changes = append(changes, input+" has changed")
		}
	}
	return changes
}
