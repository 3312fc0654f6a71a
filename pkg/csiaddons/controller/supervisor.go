package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/guard"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
)

const (
	// shutdownTimeout is how long operations may take to end after they are cancelled.
	shutdownTimeout = 30 * time.Second
	// checkInterval is the time between two checks for missing CustomResourceDefinitions and
	// permissions.
	checkInterval = 10 * time.Second
	// ActiveCondition is a condition of the pod of the controller. It is False while the controller
	// does nothing, because another one runs or because something is missing.
	ActiveCondition = corev1.PodConditionType("csi-addons.openstack.org/Active")
	actionStepBack  = "StepBack"
)

// Reasons of the condition and of events.
const (
	ReasonOther     = "OtherController"
	ReasonNoOther   = "NoOtherController"
	ReasonNoCRDs    = "NoCustomResourceDefinitions"
	ReasonForbidden = "NamespacesForbidden"
)

// supervisor runs the operations while no other controller of CSI-Addons runs.
type supervisor struct {
	*Controller

	outer  manager.Manager
	config *rest.Config
	scheme *runtime.Scheme
	live   *settings.Live
	// options applies the options of the ConfigMap.
	options *follower
	guard   *guard.Guard
	events  events.EventRecorder
}

// operations are the running operations.
type operations struct {
	cancel context.CancelFunc
	ended  chan error
}

// Start implements manager.Runnable.
func (s *supervisor) Start(ctx context.Context) error {
	others := make(chan string)
	watching := make(chan error, 1)
	go func() { watching <- s.guard.Run(ctx, others) }()
	var running *operations
	defer func() {
		if running != nil {
			running.cancel()
		}
	}()
	for {
		var ended chan error
		if running != nil {
			ended = running.ended
		}
		select {
		case err := <-ended:
			running = nil
			return err
		case err := <-watching:
			if running == nil || err != nil {
				return err
			}
			watching = nil
		case other := <-others:
			var err error
			if running, err = s.follow(ctx, running, other); err != nil {
				return err
			}
		}
	}
}

// follow starts or stops the operations.
func (s *supervisor) follow(ctx context.Context, running *operations, other string,
) (*operations, error) {
	switch {
	case other == "":
		s.report(ctx, true, ReasonNoOther, "No other controller of CSI-Addons runs in the cluster")
		if running != nil {
			return running, nil
		}
		ctx, cancel := context.WithCancel(ctx)
		started := &operations{cancel: cancel, ended: make(chan error, 1)}
		go func() { started.ended <- s.operate(ctx) }()
		return started, nil
	case running != nil:
		running.cancel()
		if err := <-running.ended; err != nil {
			return nil, err
		}
	}
	s.report(ctx, false, ReasonOther, fmt.Sprintf("Another controller of CSI-Addons runs: it has %s. "+
		"This controller does nothing until that is gone", other))
	return nil, nil
}

// operate runs the operations until ctx is done.
func (s *supervisor) operate(ctx context.Context) error {
	s.awaitDefinitions(ctx)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // another controller runs, or the program ends
	}
	// The first operation already follows the ConfigMap.
	if _, err := s.options.Reconcile(ctx, reconcile.Request{}); err != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", settings.ConfigMap, err)
	}
	tokens, err := s.newTokens(ctx)
	if err != nil {
		return err
	}
	return s.runAllowed(ctx, tokens)
}

// awaitDefinitions waits until the API server knows all kinds, or ctx is done.
func (s *supervisor) awaitDefinitions(ctx context.Context) {
	reported := false
	_ = wait.PollUntilContextCancel(ctx, checkInterval, true,
		func(ctx context.Context) (bool, error) {
			missing, err := s.missing()
			if err == nil && len(missing) == 0 {
				if reported {
					s.report(ctx, true, ReasonNoOther, "The CustomResourceDefinitions are installed")
				}
				return true, nil
			}
			if !reported {
				message := fmt.Sprintf("The cluster has no kinds %v of %s: install the "+
					"CustomResourceDefinitions", missing, v1alpha1.GroupVersion())
				if err != nil {
					message = fmt.Sprintf("Reading the kinds of %s failed: %v", v1alpha1.GroupVersion(), err)
				}
				s.report(ctx, false, ReasonNoCRDs, message)
				reported = true
			}
			return false, nil
		})
}

// missing returns the kinds that the API server does not know.
func (s *supervisor) missing() ([]string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return nil, err
	}
	list, err := client.ServerResourcesForGroupVersion(v1alpha1.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	known := map[string]bool{}
	if err == nil {
		for i := range list.APIResources {
			known[list.APIResources[i].Kind] = true
		}
	}
	var missing []string
	for _, kind := range []string{
		"CSIAddonsNode", "ReclaimSpaceJob", "ReclaimSpaceCronJob", "NetworkFence", "NetworkFenceClass",
	} {
		if !known[kind] {
			missing = append(missing, kind)
		}
	}
	return missing, nil
}

// report writes whether the controller works: a metric, and a condition and an event of its pod.
func (s *supervisor) report(ctx context.Context, active bool, reason, message string) {
	logger := log.FromContext(ctx)
	logger.Info("State of the controller", "active", active, "reason", reason, "message", message)
	s.Metrics.Active(active)
	if s.Settings.Pod == "" {
		return
	}
	pod := &corev1.Pod{}
	name := types.NamespacedName{Namespace: s.Settings.Namespace, Name: s.Settings.Pod}
	if err := s.outer.GetAPIReader().Get(ctx, name, pod); err != nil {
		logger.Error(err, "Failed to read the pod of the controller", "pod", name)
		return
	}
	changed := pod.DeepCopy()
	if !setCondition(changed, active, reason, message) {
		return
	}
	err := s.outer.GetClient().Status().Patch(ctx, changed, client.StrategicMergeFrom(pod))
	if err != nil {
		logger.Error(err, "Failed to write the condition of the pod", "pod", name)
	}
	kind := corev1.EventTypeWarning
	if reason == ReasonNoOther {
		kind = corev1.EventTypeNormal
	}
	s.events.Eventf(pod, nil, kind, reason, actionStepBack, "%s", message)
}

// setCondition sets the condition of a pod. It returns whether that has changed it.
func setCondition(pod *corev1.Pod, active bool, reason, message string) bool {
	wanted := corev1.PodCondition{
		Type: ActiveCondition, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: metav1.Now(),
	}
	if active {
		wanted.Status = corev1.ConditionTrue
	}
	for i := range pod.Status.Conditions {
		found := &pod.Status.Conditions[i]
		if found.Type != ActiveCondition {
			continue
		}
		if found.Status == wanted.Status {
			wanted.LastTransitionTime = found.LastTransitionTime
		}
		same := *found == wanted
		*found = wanted
		return !same
	}
	pod.Status.Conditions = append(pod.Status.Conditions, wanted)
	return true
}
