package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Explanation says why an object is in its state. Its JSON is the output of `why -o json`.
type Explanation struct {
	Object string `json:"object"`
	State  string `json:"state"`
	Cause  string `json:"cause,omitempty"`
	Chain  []Link `json:"chain"`
	// Diff is how StorageClasses would change.
	Diff string `json:"diff,omitempty"`

	NotVisible []string `json:"notVisible,omitempty"`
}

// question is the object that `why` explains.
type question struct {
	*session

	from                  *cluster
	namespace, kind, name string
}

type explainer struct {
	schema.GroupVersionKind

	explain explains
}

// explains returns nil if something has failed.
type explains = func(context.Context, question) *Explanation

func explainers() map[string]explainer {
	core, apps := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion
	addons := v1alpha1.GroupVersion()
	storage, snapshots := storagev1.SchemeGroupVersion, snapshotv1.SchemeGroupVersion
	return map[string]explainer{
		"pvc": {core.WithKind("PersistentVolumeClaim"), orCreator(reading(explainClaim))},
		"pv":  {core.WithKind("PersistentVolume"), reading(explainVolume)},
		"pod": {core.WithKind("Pod"), orCreator(reading(explainPod))},

		"volumesnapshot":        {snapshots.WithKind("VolumeSnapshot"), reading(explainSnapshot)},
		"volumesnapshotcontent": {snapshots.WithKind("VolumeSnapshotContent"), reading(explainContent)},

		"deployment":       {apps.WithKind("Deployment"), explainWorkload},
		daemonSet:          {apps.WithKind("DaemonSet"), explainWorkload},
		"clustercsidriver": {flavour.Of(true).Object(""), explainDriver},
		"maniladriver":     {flavour.Own("ManilaDriver"), explainDriver},
		"cinderdriver":     {flavour.Own("CinderDriver"), explainDriver},

		"job":                 {batchv1.SchemeGroupVersion.WithKind("Job"), reading(explainPodsOfJob)},
		"statefulset":         {apps.WithKind("StatefulSet"), reading(explainSet)},
		"storageclass":        {storage.WithKind("StorageClass"), reading(explainClass)},
		"volumeattachment":    {storage.WithKind("VolumeAttachment"), reading(explainAttachment)},
		"node":                {core.WithKind("Node"), reading(explainNode)},
		"networkfence":        {addons.WithKind("NetworkFence"), reading(explainFence)},
		"reclaimspacejob":     {addons.WithKind("ReclaimSpaceJob"), reading(explainJob)},
		"reclaimspacecronjob": {addons.WithKind("ReclaimSpaceCronJob"), reading(explainCronJob)},
	}
}

// reading gives the object of the question to an explainer.
func reading[T any, P interface {
	*T
	client.Object
}](explain func(context.Context, question, P) *Explanation) explains {
	return func(ctx context.Context, q question) *Explanation {
		if object := P(new(T)); q.read(ctx, object) {
			return explain(ctx, q, object)
		}
		return nil
	}
}

const daemonSet = "daemonset"

// kindNamed returns the kind with one of the names that kubectl knows; "" if there is none.
func kindNamed(word string) string {
	word = strings.ToLower(word)
	short := map[string]string{
		"po": "pod", "vs": "volumesnapshot", "deploy": "deployment", "ds": "daemonset",
		"sts": "statefulset", "sc": "storageclass", "no": "node",
	}
	word = cmp.Or(short[word], word)
	for name, of := range explainers() {
		plural, singular := meta.UnsafeGuessKindToResource(of.GroupVersionKind)
		if slices.Contains([]string{
			name, plural.Resource, singular.Resource, plural.GroupResource().String(),
			singular.GroupResource().String(),
		}, word) {
			return name
		}
	}
	return ""
}

func newWhyCommand(o *options) *cobra.Command {
	c := &cloud{}
	kinds := strings.Join(slices.Sorted(maps.Keys(explainers())), ", ")
	cmd := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Explain why an object waits: each link from the object to the cloud",
		Long: "Explain why an object waits: each link from the object to the cloud. Kinds: " + kinds +
			". The ClusterRole openstack-csi-viewer is enough. With --clouds also what OpenStack says " +
			"about it, and has left for a claim that a quota stops.",
		Example: "  kubectl openstack-csi why pvc/data -n shop\n" +
			"  kubectl openstack-csi why maniladriver/nfs.manila.csi.openstack.org\n" +
			"  kubectl openstack-csi why clustercsidriver/manila.csi.openstack.org  # on OpenShift",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("name an object, such as pvc/data")
			}
			return atMost(2)(cmd, args)
		},
		ValidArgsFunction: o.completeObject,
		RunE: o.run(func(ctx context.Context, s *session, args []string) error {
			kind, name, ok := strings.Cut(strings.Join(args, "/"), "/")
			kind = kindNamed(kind)
			if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
				return usage("%q: use KIND/NAME with a kind of %s", strings.Join(args, " "), kinds)
			}
			of, about := explainers()[kind], question{s, s.guest, s.namespace, kind, name}
			if slices.Contains(clusterKinds(), of.GroupVersionKind) {
				about.namespace = ""
			}
			s.cloud = *c
			return s.answer(kind+"/"+name, of.explain(ctx, about))
		}),
	}
	o.addOutputTo(cmd)
	c.addTo(cmd)
	return cmd
}

// answer prints why an object is in its state.
func (s *session) answer(object string, e *Explanation) error {
	if err := s.failed(); err != nil {
		return err
	}
	e.Object, e.NotVisible = object, s.notVisible()
	said := map[string]bool{}
	e.Chain = slices.DeleteFunc(e.Chain, func(l Link) bool { // objects of a path may say the same
		cause := cmp.Or(strings.TrimSuffix(l.cause, diagnosis.NoMessage), l.Text+l.Runbook)
		again := said[cause]
		said[cause] = true
		return again
	})
	cause := causeOf(e.Chain)
	about := cause
	i := slices.IndexFunc(e.Chain, func(l Link) bool { return l.Step != "" })
	if cause == nil && i >= 0 {
		about = &e.Chain[i] // what it waits for, as it should
	}
	if about != nil {
		e.Cause = about.sentence(maxSentence - utf8.RuneCountInString(object+" is "+e.State+": "))
	}
	return s.show("Explanation", e, cause != nil)
}

func (e *Explanation) write(out io.Writer, p palette) {
	text := e.Object + " is " + e.State
	if e.Cause != "" {
		text += ": " + e.Cause
	}
	fmt.Fprintln(out, wrap("", text, 0))
	said := map[string]bool{}
	for _, l := range e.Chain {
		next := l.Next
		if said[next] {
			l.Next = ""
		}
		said[next] = true
		p.link(out, l)
	}
	writeNotVisible(out, e.NotVisible)
	fmt.Fprint(out, printable(e.Diff))
}

func (s *session) age(since time.Time) string {
	return duration.HumanDuration(s.clock.Since(since))
}

// state says for how long an object has existed in a phase, or has been deleted.
func (s *session) state(object client.Object, phase string) string {
	since := object.GetCreationTimestamp()
	if deleted := object.GetDeletionTimestamp(); deleted != nil {
		phase, since = "Terminating", *deleted
		if s.clock.Since(since.Time) < 0 { // the grace period of a pod
			return phase
		}
	}
	return phase + " for " + s.age(since.Time)
}

// read reads the object of the question. Unlike other objects, it must exist and be visible.
func (q *question) read(ctx context.Context, object client.Object) bool {
	err := q.from.Get(ctx, client.ObjectKey{Namespace: q.namespace, Name: q.name}, object)
	namespace := &corev1.Namespace{}
	if isUnserved(err) {
		err = fmt.Errorf("the cluster has no %s: install their CustomResourceDefinitions",
			q.from.kind(object))
	} else if apierrors.IsNotFound(err) && find(ctx, q.from, "", q.namespace, namespace) != nil &&
		namespace.DeletionTimestamp != nil {
		err = fmt.Errorf("%w: %s", err, q.terminating(namespace))
	} else if apierrors.IsNotFound(err) && q.namespace != "" {
		err = fmt.Errorf("%w in namespace %s: choose another one with -n", err, q.namespace)
	} else if err != nil {
		err = fmt.Errorf("reading %s: %w", q.from.kind(object), err)
	}
	q.err = cmp.Or(q.err, err)
	return q.err == nil
}

func events(ctx context.Context, from *cluster, object client.Object) []corev1.Event {
	return list[corev1.EventList](ctx, from, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{"involvedObject.uid": string(object.GetUID())}).Items
}
