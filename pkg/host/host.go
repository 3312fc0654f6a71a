// Package host gives an operator what a process in a cluster needs around its work: an event recorder, leader election, an
// HTTPS server for health and metrics, and an end when watched files change. Its caller is the operator core.
//
// It has the job of library-go's controllercmd and is put together from the same libraries, without the generic API server,
// which is half of a binary's size and a third of its memory (docs/decisions/0002-own-host.md).
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	// Registers the metrics of client-go.
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"github.com/openshift/library-go/pkg/controller/fileobserver"
	"github.com/openshift/library-go/pkg/operator/events"
)

// Options say how to be in the cluster.
type Options struct {
	// Name is the operator's; its Lease has the suffix -lock.
	Name string
	// Namespace is the operator's: of its Lease.
	Namespace string
	// Config reaches the API server of the cluster that the process runs in.
	Config *rest.Config
	// Served reaches the API server of the cluster that the operator works for, which may be another. That one gets the events and
	// says who may read metrics: an operator in a hosted control plane has no rights in the management cluster to ask. Only the event
	// that a process leads is beside its Lease.
	Served *rest.Config
	// EventNamespace is where events go, in the served cluster.
	EventNamespace string
	// Operator configures serving and leader election.
	Operator operatorv1alpha1.GenericOperatorConfig
	// RestartOn are the files whose change ends the process, for a new one to read them. Their content is what has been read
	// already; nil is what they hold now.
	RestartOn map[string][]byte
	Clock     clock.Clock
}

// Process is what the work is given.
type Process struct {
	// Config and Served are those of the options.
	Config, Served *rest.Config
	Events         events.Recorder
	Clock          clock.Clock
}

// Work is what an operator does while it leads. It returns soon after its context is done.
type Work func(context.Context, Process) error

// Run serves, becomes leader, and works until ctx is done or a watched file changed; both are no error. The lease is given
// back when the work has ended, so that the next process need not wait for it to expire.
func Run(ctx context.Context, o Options, work Work) error {
	saveMemory()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := o.watchFiles(ctx, cancel); err != nil {
		return err
	}
	config := rest.CopyConfig(o.Served)
	config.QPS = -1 // client-go's five a second would hold events back for long after a start
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making client: %w", err)
	}
	if err := serve(ctx, o, kube); err != nil {
		return err
	}
	recorder := o.recorder(ctx, kube)
	return lead(ctx, o, func(ctx context.Context) error {
		return work(ctx, Process{Config: o.Config, Served: o.Served, Events: recorder, Clock: o.Clock})
	})
}

// saveMemory trades processor time, of which an idle operator needs little, for memory, which it holds all the time: without
// it the heap keeps the size that it had while the caches were filled. A GOGC in the environment has precedence.
func saveMemory() {
	const percent, runtimeDefault = 40, 100
	if chosen := debug.SetGCPercent(percent); chosen != runtimeDefault {
		debug.SetGCPercent(chosen)
	}
}

// fileInterval is how often watched files are read.
const fileInterval = 5 * time.Second

func (o Options) watchFiles(ctx context.Context, end func()) error {
	if len(o.RestartOn) == 0 {
		return nil
	}
	observer, err := fileobserver.NewObserver(fileInterval)
	if err != nil {
		return fmt.Errorf("watching files: %w", err)
	}
	for file, content := range o.RestartOn {
		if content == nil {
			// The observer panics at what it cannot read; only a file that is not there yet is no fault.
			if content, err = os.ReadFile(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("watching file %q: %w", file, err)
			}
		}
		observer.AddReactor(fileobserver.TerminateOnChangeReactor(end), map[string][]byte{file: content}, file)
	}
	go observer.Run(ctx.Done())
	return nil
}

// recorder makes events about the operator's Deployment, or about the namespace where that is in another cluster or not found.
func (o Options) recorder(ctx context.Context, kube kubernetes.Interface) events.Recorder {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: o.EventNamespace, Name: o.EventNamespace}
	if o.Served == o.Config {
		var err error
		if about, err = events.GetControllerReferenceForCurrentPod(ctx, kube, o.EventNamespace, nil); err != nil {
			klog.FromContext(ctx).Info("Events are about the namespace: this process runs in no pod", "namespace", o.EventNamespace)
		}
	}
	return recorder{events.NewKubeRecorderWithOptions(kube.CoreV1().Events(o.EventNamespace), events.RecommendedClusterSingletonCorrelatorOptions(),
		o.Name, about, o.Clock)}
}
