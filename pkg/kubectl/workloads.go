package kubectl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

const maxPods = 5

// template is a pod template that a workload had, and when it got the template.
type template struct {
	revision int64
	since    time.Time
	pod      *corev1.PodTemplateSpec
	changed  time.Time // of its object, such as its revision
	// wanted is the specHash of the workload when it last got the template, "" if not known.
	wanted string
}

// again returns when a workload got a template again, after an edited one.
func (t template) again(edited template) time.Time {
	if t.changed.Before(edited.since) {
		return edited.since
	}
	return t.changed
}

// templatesOfReplicaSets returns the templates of a Deployment. A ReplicaSet outlives events.
func templatesOfReplicaSets(d metav1.Object, sets []appsv1.ReplicaSet) (templates []template) {
	for i, set := range sets {
		var revision int64
		_, err := fmt.Sscan(set.Annotations["deployment.kubernetes.io/revision"], &revision)
		if err == nil && metav1.IsControlledBy(&sets[i], d) {
			templates = append(templates, template{
				revision, set.CreationTimestamp.Time, &sets[i].Spec.Template, lastChange(&sets[i]),
				set.Annotations[specHash],
			})
		}
	}
	return newestFirst(templates)
}

func templatesOfRevisions(
	d metav1.Object, revisions []appsv1.ControllerRevision,
) (templates []template) {
	for i, r := range revisions {
		var data appsv1.DaemonSet // a revision contains only its template
		if metav1.IsControlledBy(&revisions[i], d) && json.Unmarshal(r.Data.Raw, &data) == nil {
			t := template{r.Revision, r.CreationTimestamp.Time, &data.Spec.Template, lastChange(&r), ""}
			if !t.changed.After(t.since) { // only the creation of a revision copies annotations
				t.wanted = r.Annotations[specHash]
			}
			templates = append(templates, t)
		}
	}
	return newestFirst(templates)
}

// newestFirst sorts templates.
func newestFirst(all []template) []template {
	slices.SortFunc(all, func(a, b template) int { return cmp.Compare(b.revision, a.revision) })
	return all
}

// locate sets the cluster and the namespace of a workload, and returns its driver; nil if it is not
// one of a driver. Without the flag --namespace it chooses the namespace of the driver.
func (q *question) locate(ctx context.Context) *driver {
	d := q.guest.driverIf(func(d driver) bool { return slices.Contains(d.workloads(), q.name) })
	if d == nil {
		return nil
	}
	chosen := q.overrides.Context.Namespace != ""
	if q.kind == daemonSet {
		if !chosen {
			q.namespace = d.namespace
		}
		return d
	}
	at := q.place(ctx, *d)
	if at == nil {
		q.err = cmp.Or(q.failed(), usage("Deployment %s is in the hosted control plane: set "+
			"--management-kubeconfig and --management-namespace", q.name))
		return nil
	}
	if !chosen || q.management != nil {
		q.namespace = at.namespace
		if q.name == d.operator {
			q.namespace = at.operator
		}
	}
	q.from = at.cluster
	return d
}

// explainWorkload explains a Deployment or DaemonSet from its pods, the events of the first one
// that is not ready, and those of the workload.
func explainWorkload(ctx context.Context, q question) *Explanation {
	var object client.Object = &appsv1.Deployment{}
	if q.kind == daemonSet {
		object = &appsv1.DaemonSet{}
	}
	d := q.locate(ctx)
	if q.err != nil || !q.read(ctx, object) {
		return nil
	}
	var templates []template
	within := client.InNamespace(q.namespace)
	if q.kind == daemonSet {
		templates = templatesOfRevisions(object,
			list[appsv1.ControllerRevisionList](ctx, q.from, within).Items)
	} else {
		templates = templatesOfReplicaSets(object,
			list[appsv1.ReplicaSetList](ctx, q.from, within).Items)
	}
	pods := podsOf(ctx, q.from, object)
	var all []corev1.Event
	var stops []Link
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return !isReady(&p) })
	if w := diagnosis.NewWorkload(object, pods); i < 0 && w.Available < w.Wanted {
		i = slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	}
	paused, isDeployment := object.(*appsv1.Deployment)
	switch {
	case isDeployment && paused.Spec.Paused && paused.Status.UpdatedReplicas < paused.Status.Replicas:
		stops = []Link{linkf(Problem, "it is paused, so its pods are not those of its present template").
			then("Run: kubectl rollout resume deployment/%s -n %s", paused.Name, paused.Namespace)}
	case i < 0:
	case d == nil, pods[i].Spec.NodeName == "" && q.from == q.guest:
		stops = q.podLinks(ctx, &pods[i])
	default:
		all = events(ctx, q.from, &pods[i])
	}
	all = append(all, events(ctx, q.from, object)...)
	links := append(stops, q.workloadLinks(object, templates, pods, all)...)
	state := "rolled out"
	if causeOf(links) != nil {
		state = "not rolled out"
	}
	if d != nil {
		if sys := q.system(ctx, *d); sys != nil {
			for _, f := range sys.undone() {
				if strings.Contains(f.Message, " "+q.name+",") {
					links = append(links, linkOf(f))
				}
			}
			links = append(links, nearby(sys.cloudLinks(meaning.Unknown, false), causeOf(links))...)
		}
	}
	return &Explanation{State: state, Chain: links}
}

func (s *session) workloadLinks(
	object client.Object, templates []template, pods []corev1.Pod, all []corev1.Event,
) []Link {
	links := []Link{s.workloadLink(object, templates)}
	w := diagnosis.NewWorkload(object, pods)
	w.Failure = cmp.Or(w.Failure, diagnosis.FailedCreate(all))
	trouble := diagnosis.Pods(w)
	if trouble != nil {
		whole := w.Failure
		for i := range pods {
			whole = cmp.Or(whole, saidBy(&pods[i], trouble.Reason))
		}
		l := linkOf(*trouble).thenStart(trouble.Reason, "its pods").meant(trouble.Reason, whole,
			object.GetNamespace(), s.makerOf(object))
		l.Text = "it" + strings.Replace(strings.TrimPrefix(l.Text, w.Kind+" "+w.Name),
			", where pods cannot mount or unmount volumes", "", 1)
		links = []Link{s.unhealthy(l, trouble.Reason, all), also(links[0])}
	}
	waiting, fails := map[string][]corev1.Pod{}, "its events say" // pods by what is wrong
	for i, pod := range pods {
		if _, _, text := diagnosis.PodTrouble(&pods[i]); text != "" {
			if len(waiting) == 0 {
				fails = "pod " + pod.Namespace + "/" + pod.Name + " does not start"
			}
			waiting[text] = append(waiting[text], pod)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(waiting)) {
		state, _, _ := diagnosis.PodTrouble(&waiting[text][0])
		l := linkf(state, "pod %s", diagnosis.List(namesOf(waiting[text])))
		if trouble != nil && strings.HasSuffix(trouble.Message, text) {
			links[0].Detail = strings.TrimSpace(links[0].Detail + "\n" + l.Text)
			continue
		}
		l.Text, l.cause = l.Text+": "+text, diagnosis.SaidIn(text)
		links = append(links, l)
	}
	if links[0].State != OK || len(waiting) > 0 {
		w := work{
			fails: fails, knows: "Ask the administrators of the cluster",
			names: map[fault.Noun]string{"maker": s.makerOf(object), "within": object.GetNamespace()},
		}
		said := s.warnings(w, all)
		if trouble == nil && causeOf(said) != nil { // numbers of pods are not the cause
			return append(append(said, also(links[0])), links[1:]...)
		}
		for _, l := range said {
			links = append(links, also(l))
		}
	}
	return links
}

// workloadLink says how many pods run, and why a workload rolled out if its templates are known.
func (s *session) workloadLink(object metav1.Object, templates []template) Link {
	w := diagnosis.NewWorkload(object, nil)
	l := linkf(OK, "%s %s %d/%d", w.Kind, w.Name, w.Available, w.Wanted)
	switch {
	case w.Available == 0 && w.Wanted > 0:
		l.State = Problem
	case w.Available < w.Wanted || w.Updated < w.Wanted:
		l.State = Progress
	}
	if w.Updated < w.Wanted {
		l.Text += fmt.Sprintf(", %d of %d up to date", w.Updated, w.Wanted)
	}
	if len(templates) > 1 && templates[0].since.Before(templates[1].since) {
		l.Text += ", went back to an earlier pod template"
	} else if len(templates) > 1 {
		l.Text += fmt.Sprintf(", rolled out %s ago because %s", s.age(templates[0].since),
			cause(object, templates[1].pod, templates[0].pod))
	}
	return l
}

// makerOf returns operatorMakes for the workload of a driver: only the operator's own Deployment is
// applied by somebody else.
func (s *session) makerOf(workload metav1.Object) string {
	d := s.guest.driverIf(func(d driver) bool {
		return slices.Contains(append(d.nodes, d.controller), workload.GetName())
	})
	if d == nil {
		return ""
	}
	return operatorMakes
}

// isReady returns whether a pod is ready, has ended, or is being deleted.
func isReady(pod *corev1.Pod) bool {
	_, _, trouble := diagnosis.PodTrouble(pod)
	return trouble == ""
}

// cause returns what differs between two pod templates of a workload. An upgrade changes images,
// and the hashes of inputs as well if the earlier release computed them in another way.
func cause(workload metav1.Object, before, now *corev1.PodTemplateSpec) string {
	var causes []string
	if images := changedImages(before.Spec, now.Spec); len(images) > 0 {
		causes = append(causes, "the image of "+strings.Join(images, ", ")+" changed")
	}
	if inputs := changedInputs(workload, before, now); len(inputs) > 0 {
		causes = append(causes, strings.Join(inputs, " and ")+" changed")
	}
	return cmp.Or(strings.Join(causes, ", and "), "the pod template changed")
}

// changedImages returns the containers that are new or have another image.
func changedImages(before, now corev1.PodSpec) (changed []string) {
	earlier := map[string]string{}
	for _, c := range slices.Concat(before.InitContainers, before.Containers) {
		earlier[c.Name] = c.Image
	}
	for _, c := range slices.Concat(now.InitContainers, now.Containers) {
		if image, found := earlier[c.Name]; !found || image != c.Image {
			changed = append(changed, c.Name)
		}
	}
	return changed
}

// changedInputs returns the rollout inputs, such as secret/name, whose hashes differ.
func changedInputs(
	workload metav1.Object, before, now *corev1.PodTemplateSpec,
) (changed []string) {
	inputs := diagnosis.ParseInputs(workload.GetAnnotations()[diagnosis.InputsAnnotation])
	for _, input := range slices.Sorted(maps.Keys(inputs)) {
		kind, name, _ := strings.Cut(input, "/")
		key := diagnosis.InputAnnotation(workload.GetNamespace(), kind, name)
		if before.Annotations[key] != now.Annotations[key] {
			changed = append(changed, input)
		}
	}
	return changed
}
