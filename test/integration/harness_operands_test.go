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

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	opv1 "github.com/openshift/api/operator/v1"
)

// dependencyPrefix starts the annotations that contain the hashes of rollout inputs.
const dependencyPrefix = "operator.openshift.io/dep-"

// workload contains the fields of a Deployment or DaemonSet that tests use.
type workload struct {
	Name       string
	Generation int64
	// Hashes and TemplateHashes are the annotations with hashes of rollout inputs, of the object
	// and of its pod template.
	Hashes, TemplateHashes map[string]string
	// Inputs and PodInputs are the lists of rollout inputs, of the object and of its pod template.
	Inputs, PodInputs string
	Pod               corev1.PodSpec
}

func newWorkload(o metav1.ObjectMeta, template corev1.PodTemplateSpec) workload {
	return workload{
		Name: o.Name, Generation: o.Generation,
		Hashes: inputHashes(o.Annotations), TemplateHashes: inputHashes(template.Annotations),
		Inputs: o.Annotations[inputsAnnotation], PodInputs: template.Annotations[inputsAnnotation],
		Pod: template.Spec,
	}
}

func inputHashes(annotations map[string]string) map[string]string {
	found := maps.Clone(annotations)
	maps.DeleteFunc(found, func(key, _ string) bool {
		return !strings.HasPrefix(key, dependencyPrefix)
	})
	return found
}

// workload returns one of the driver's workloads.
func (e *env) workload(name string) (workload, error) {
	if name == e.subject.Workloads[0] {
		deployment, err := e.deployment()
		if err != nil {
			return workload{}, err
		}
		return newWorkload(deployment.ObjectMeta, deployment.Spec.Template), nil
	}
	daemonSet, err := e.daemonSet(name)
	if err != nil {
		return workload{}, err
	}
	return newWorkload(daemonSet.ObjectMeta, daemonSet.Spec.Template), nil
}

// deployment returns the Deployment of the driver's controllers.
func (e *env) deployment() (*appsv1.Deployment, error) {
	return e.management.kube.AppsV1().Deployments(e.subject.controllerNamespace).
		Get(e.ctx(), e.subject.Workloads[0], metav1.GetOptions{})
}

// daemonSet returns one of the driver's DaemonSets.
func (e *env) daemonSet(name string) (*appsv1.DaemonSet, error) {
	return e.guest.kube.AppsV1().DaemonSets(e.subject.OperandNamespace).
		Get(e.ctx(), name, metav1.GetOptions{})
}

// workloads returns all workloads of the driver by name.
func (e *env) workloads() map[string]workload {
	e.t.Helper()
	all := map[string]workload{}
	for _, name := range e.subject.Workloads {
		w, err := e.workload(name)
		e.must(err)
		all[name] = w
	}
	return all
}

// mustHaveWorkloads fails the test if the workloads differ from before.
func (e *env) mustHaveWorkloads(before map[string]workload) {
	e.t.Helper()
	assert.Check(e.t, is.DeepEqual(before, e.workloads()), "the workloads changed")
}

// eachContainer calls check for all containers of all workloads until it returns an error.
func (e *env) eachContainer(check func(w workload, c corev1.Container) error) error {
	for _, name := range e.subject.Workloads {
		w, err := e.workload(name)
		if err != nil {
			return err
		}
		for _, c := range w.containers() {
			if err := check(w, c); err != nil {
				return fmt.Errorf("container %s of %s: %w", c.Name, name, err)
			}
		}
	}
	return nil
}

// hasContainer reports whether the pod template has a container.
func (w workload) hasContainer(name string) bool {
	return slices.ContainsFunc(w.containers(), func(c corev1.Container) bool { return c.Name == name })
}

// containers returns all containers of the pod template, init containers first.
func (w workload) containers() []corev1.Container {
	return slices.Concat(w.Pod.InitContainers, w.Pod.Containers)
}

func argument(c corev1.Container, name string) (string, bool) {
	for _, arg := range c.Args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value, true
		}
	}
	return "", false
}

func (e *env) operandSecret(name string) (map[string]string, error) {
	return e.guest.secret(e.ctx(), e.subject.OperandNamespace, name)
}

// patch merges JSON into an object of the guest cluster, or into one of its subresources.
func (e *env) patch(
	resource schema.GroupVersionResource, namespace, name, text string, subresources ...string,
) {
	e.t.Helper()
	in := collection{resource, namespace}
	e.must(e.guest.patch(e.ctx(), in, name, text, subresources...))
}

// delete deletes an object of the guest cluster.
func (e *env) delete(resource schema.GroupVersionResource, namespace, name string) {
	e.t.Helper()
	in := collection{resource, namespace}
	e.must(e.guest.of(in).Delete(e.ctx(), name, metav1.DeleteOptions{}))
}

// checkEqual returns an error with the difference unless got equals want.
func checkEqual[T any](want, got T) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("unexpected value (-want +got):\n%s", diff)
	}
	return nil
}

// conditionWatch records every version of the conditions.
type conditionWatch struct {
	stop func()
	done chan struct{}

	mutex    sync.Mutex
	versions [][]opv1.OperatorCondition
	err      error
}

// watchConditions records the conditions from the current version on.
func (e *env) watchConditions() *conditionWatch {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.ctx())
	driver, err := e.driver()
	e.must(err)
	events, err := e.guest.openst.OperatorV1().ClusterCSIDrivers().
		Watch(ctx, metav1.ListOptions{
			ResourceVersion: driver.ResourceVersion,
			FieldSelector:   "metadata.name=" + driver.Name, // a test before may have used another one
		})
	e.must(err)
	w := &conditionWatch{
		done: make(chan struct{}), stop: func() { cancel(); events.Stop() },
		versions: [][]opv1.OperatorCondition{driver.Status.Conditions},
	}
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
	w.versions = append(w.versions, version.Status.Conditions)
}

// end stops the watch and returns the conditions of each version.
func (w *conditionWatch) end(s *scope) [][]opv1.OperatorCondition {
	s.t.Helper()
	w.stop()
	<-w.done
	s.must(w.err)
	return w.versions
}
