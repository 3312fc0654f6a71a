// Package host runs an operator as a process in a cluster: it provides an event recorder, leader
// election, an HTTPS server for health and metrics, and a restart when watched files change. Its
// caller is pkg/operator.
//
// It replaces library-go's controllercmd and uses the same libraries without the generic API
// server, which is half of a binary's size and a third of its memory
// (docs/decisions/0002-own-host.md).
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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

// Options configure Run.
type Options struct {
	// Name is the operator's name. Its Lease has the same name with the suffix -lock.
	Name string
	// Namespace is the operator's namespace, which contains its Lease.
	Namespace string
	// Config is for the API server of the cluster that the process runs in.
	Config *rest.Config
	// Served is for the API server of the cluster that the operator serves: on HyperShift the guest
	// cluster. It receives the events and authenticates readers of metrics, because the RBAC of the
	// management cluster does not let an operator do so there. Events about the Lease are in the
	// cluster of the Lease.
	Served *rest.Config
	// Monitoring is the namespace of the Prometheus in the served cluster that may read the metrics.
	// If it is "", every user may who has the permission to get their path.
	Monitoring string
	// EventNamespace is the namespace of events in the served cluster.
	EventNamespace string
	// Operator configures serving and leader election.
	Operator operatorv1alpha1.GenericOperatorConfig
	// RestartOn contains the files whose change ends the process, so that a new process reads them.
	// The values are the content that the operator uses; nil means the current content of the file.
	RestartOn map[string][]byte
	Clock     clock.Clock

	// waits is whether work is not ready. nil means that it is.
	waits *atomic.Bool
}

// Process is the input of Work. Clients of its configurations write only with the Lease.
type Process struct {
	Options
	Events events.Recorder
	// SetReady sets whether the process is ready, as it is at first.
	SetReady func(bool)
}

// Work runs while the process is the leader. It returns soon after its context is done.
type Work func(context.Context, Process) error

// Run serves health and metrics, becomes the leader, and runs work until ctx is done or a watched
// file changes; neither is an error. It releases the Lease after work returned, so that the next
// process does not wait until the Lease expires.
func Run(ctx context.Context, o Options, work Work) error {
	tuneRuntime()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go wait.UntilWithContext(ctx, func(context.Context) { debug.FreeOSMemory() }, memoryInterval)
	if err := o.watchFiles(ctx, cancel); err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(o.Served)
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	o.waits = &atomic.Bool{}
	if err := serve(ctx, o); err != nil {
		return err
	}
	recorder := o.recorder(ctx, kube)
	return lead(ctx, o, func(ctx context.Context, o Options) error {
		return work(ctx, Process{o, recorder, func(ready bool) { o.waits.Store(!ready) }})
	})
}

// tuneRuntime saves memory. It uses one CPU, because the runtime keeps free memory for each: on a
// node with 64 CPUs an operator would need 5 MB more. It collects garbage more often than the
// default, because the heap would keep the size it had while the caches were filled. GOGC in the
// environment has precedence.
func tuneRuntime() {
	runtime.GOMAXPROCS(1)
	const percent, runtimeDefault = 10, 100
	if chosen := debug.SetGCPercent(percent); chosen != runtimeDefault {
		debug.SetGCPercent(chosen)
	}
}

// memoryInterval is how often the process returns free memory to the operating system. The runtime
// keeps some of it for a heap as large as the largest one, which is that of the start.
const memoryInterval = time.Minute

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
			// The observer panics if it cannot read a file. A missing file may be created later.
			if content, err = os.ReadFile(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("watching file %q: %w", file, err)
			}
		}
		reactor := fileobserver.TerminateOnChangeReactor(end)
		observer.AddReactor(reactor, map[string][]byte{file: content}, file)
	}
	go observer.Run(ctx.Done())
	return nil
}

// recorder returns a recorder of events about the operator's Deployment. The events refer to the
// namespace if the Deployment is in another cluster or not found.
func (o Options) recorder(ctx context.Context, kube kubernetes.Interface) events.Recorder {
	namespace := o.EventNamespace
	about := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Namespace", Namespace: namespace, Name: namespace,
	}
	if o.Served == o.Config {
		var err error
		about, err = events.GetControllerReferenceForCurrentPod(ctx, kube, namespace, nil)
		if err != nil {
			klog.FromContext(ctx).Info("Events are about the namespace: the process does not run in a pod",
				"namespace", namespace)
		}
	}
	return recorder{events.NewKubeRecorderWithOptions(kube.CoreV1().Events(namespace),
		events.RecommendedClusterSingletonCorrelatorOptions(), o.Name, about, o.Clock)}
}
