//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	opv1 "github.com/openshift/api/operator/v1"
)

const (
	// prompt bounds what an event brings about: no poll, no resync.
	prompt = 5 * time.Second
	// dependencyPrefix begins the annotations that hold hashes of what a workload depends on.
	dependencyPrefix = "operator.openshift.io/dep-"
)

// workload is what tests look at of a Deployment or DaemonSet.
type workload struct {
	Name       string
	Generation int64
	// Hashes are the annotations about dependencies, of the object and of its pod template.
	Hashes, TemplateHashes map[string]string
	Pod                    corev1.PodSpec
}

func newWorkload(o metav1.ObjectMeta, template corev1.PodTemplateSpec) workload {
	return workload{o.Name, o.Generation, dependencies(o.Annotations), dependencies(template.Annotations), template.Spec}
}

func dependencies(annotations map[string]string) map[string]string {
	found := maps.Clone(annotations)
	maps.DeleteFunc(found, func(key, _ string) bool { return !strings.HasPrefix(key, dependencyPrefix) })
	return found
}

// workload returns one of the driver's workloads.
func (e *env) workload(name string) (workload, error) {
	if name == e.subject.workloads[0] {
		deployment, err := e.deployment()
		if err != nil {
			return workload{}, err
		}
		return newWorkload(deployment.ObjectMeta, deployment.Spec.Template), nil
	}
	daemonSet, err := e.kube.AppsV1().DaemonSets(e.subject.operandNamespace).Get(e.ctx(), name, metav1.GetOptions{})
	if err != nil {
		return workload{}, err
	}
	return newWorkload(daemonSet.ObjectMeta, daemonSet.Spec.Template), nil
}

// deployment returns that of the driver's controllers, wherever it is.
func (e *env) deployment() (*appsv1.Deployment, error) {
	return e.management.kube.AppsV1().Deployments(e.subject.controllerNamespace).Get(e.ctx(), e.subject.workloads[0], metav1.GetOptions{})
}

// workloadNames are the names of Manila's workloads.
func workloadNames() []string { return manila().workloads }

// workloads returns all of the driver's by name.
func (e *env) workloads() map[string]workload {
	e.t.Helper()
	all := map[string]workload{}
	for _, name := range e.subject.workloads {
		w, err := e.workload(name)
		e.must(err)
		all[name] = w
	}
	return all
}

// container returns a container of the pod template.
func (w workload) container(name string) (corev1.Container, error) {
	for _, c := range w.containers() {
		if c.Name == name {
			return c, nil
		}
	}
	return corev1.Container{}, fmt.Errorf("%s has no container %s", w.Name, name)
}

// containers returns all containers of the pod template, those that start first included.
func (w workload) containers() []corev1.Container {
	return slices.Concat(w.Pod.InitContainers, w.Pod.Containers)
}

// argument returns the value of an argument of the form --name=value.
func argument(c corev1.Container, name string) (string, bool) {
	for _, arg := range c.Args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// sub runs a part of a test under its own name; what fails in it is its own failure.
func (e *env) sub(name string, part func(t *testing.T)) {
	e.t.Run(name, func(t *testing.T) {
		outer := e.t
		e.t = t
		defer func() { e.t = outer }()
		part(t)
	})
}

// operandSecret returns the data of a Secret in the operands' namespace.
func (e *env) operandSecret(name string) (map[string]string, error) {
	secret, err := e.kube.CoreV1().Secrets(e.subject.operandNamespace).Get(e.ctx(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data := map[string]string{}
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data, nil
}

// patch merges JSON into an object, or into its status.
func (e *env) patch(resource schema.GroupVersionResource, namespace, name, text string, subresources ...string) {
	e.t.Helper()
	_, err := e.dynamic.Resource(resource).Namespace(namespace).
		Patch(e.ctx(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "an-administrator"}, subresources...)
	e.must(err)
}

// afterwards has something put back at the test's end, with a context that is not done by then.
func (e *env) afterwards(restore func(context.Context) error) {
	ctx := context.WithoutCancel(e.ctx())
	e.t.Cleanup(func() {
		if err := restore(ctx); err != nil {
			e.t.Errorf("putting things back after the test: %v", err)
		}
	})
}

func configResource(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: resource}
}

// conditionWatch records each version of the conditions.
type conditionWatch struct {
	stop func()
	done chan struct{}

	mutex sync.Mutex
	seen  []opv1.OperatorCondition
	err   error
}

// watchConditions begins to record, with the present version.
func (e *env) watchConditions() *conditionWatch {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.ctx())
	driver, err := e.driver()
	e.must(err)
	events, err := e.openst.OperatorV1().ClusterCSIDrivers().Watch(ctx, metav1.ListOptions{ResourceVersion: driver.ResourceVersion})
	e.must(err)
	w := &conditionWatch{done: make(chan struct{}), stop: func() { cancel(); events.Stop() }, seen: driver.Status.Conditions}
	e.t.Cleanup(w.stop)
	go func() {
		defer close(w.done)
		for event := range events.ResultChan() {
			if ctx.Err() == nil {
				w.add(event)
			}
		}
	}()
	return w
}

func (w *conditionWatch) add(event watch.Event) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	version, ok := event.Object.(*opv1.ClusterCSIDriver)
	if !ok {
		w.err = errors.Join(w.err, fmt.Errorf("watching the ClusterCSIDriver: %v", event.Object))
		return
	}
	w.seen = append(w.seen, version.Status.Conditions...)
}

// has returns nil if the condition has had the status in any version.
func (w *conditionWatch) has(conditionType string, status opv1.ConditionStatus) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, c := range w.seen {
		if c.Type == conditionType && c.Status == status {
			return nil
		}
	}
	return fmt.Errorf("%s has never been %s", conditionType, status)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// conditions ends the recording and returns all conditions of all versions.
func (w *conditionWatch) conditions(e *env) []opv1.OperatorCondition {
	e.t.Helper()
	w.stop()
	<-w.done
	e.must(w.err)
	if len(w.seen) == 0 {
		e.t.Fatal("no condition has been seen")
	}
	return w.seen
}

// sourcesOf says which keys of which objects a volume has: kind, name, whether it may be missing, key and file.
func sourcesOf(pod corev1.PodSpec, volume string) []string {
	var sources []string
	add := func(kind, name string, optional *bool, items []corev1.KeyToPath) {
		if optional != nil && *optional {
			name += " optional"
		}
		for _, item := range items {
			sources = append(sources, fmt.Sprintf("%s %s %s->%s", kind, name, item.Key, item.Path))
		}
	}
	for _, v := range pod.Volumes {
		switch {
		case v.Name != volume:
		case v.ConfigMap != nil:
			add("configMap", v.ConfigMap.Name, v.ConfigMap.Optional, v.ConfigMap.Items)
		case v.Secret != nil:
			add("secret", v.Secret.SecretName, v.Secret.Optional, v.Secret.Items)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.Secret != nil {
					add("secret", s.Secret.Name, s.Secret.Optional, s.Secret.Items)
				}
				if s.ConfigMap != nil {
					add("configMap", s.ConfigMap.Name, s.ConfigMap.Optional, s.ConfigMap.Items)
				}
			}
		}
	}
	return sources
}
