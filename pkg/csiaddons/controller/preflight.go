package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// Names of the objects of the CSI-Addons for Ceph.
const (
	// LeaseName is the name of the Lease of its controller.
	LeaseName = "e8cd140a.openshift.io"
	// DeploymentName is the name of the Deployment of its controller, and of ours.
	DeploymentName = "csi-addons-controller-manager"
)

const (
	// storageNamespace is the namespace of OpenShift Data Foundation, which contains a controller of
	// CSI-Addons. On OpenShift only administrators create namespaces whose names start with
	// openshift-.
	storageNamespace = "openshift-storage"
	// maxLease limits the duration that a Lease names, and maxSkew is by how much the clock of its
	// holder may be slow.
	maxLease, maxSkew = 10 * time.Minute, 30 * time.Second
	// preflightTimeout is how long the controller waits until it may start, and preflightInterval the
	// time between two checks. Afterwards it checks every recheckInterval whether it must restart.
	preflightTimeout, preflightInterval = time.Minute, 5 * time.Second
	recheckInterval                     = 30 * time.Second
)

// preflight checks whether the controller may run: the cluster has the CustomResourceDefinitions,
// no other controller of CSI-Addons runs, which would execute each operation twice, and the
// controller may read the namespaces of drivers.
type preflight struct {
	settings *Settings
	// client reads from the API server, without a cache.
	client client.Client
	// schemas returns what the API server publishes about kinds.
	schemas func(schema.GroupVersion) (map[string]any, error)
	// events records warnings. restart ends the controller.
	events  events.EventRecorder
	restart context.CancelFunc

	// served are the namespaces of drivers that the controller may read. A cache of objects in another
	// namespace would never be complete.
	served []string
	// others are the namespaces in which another controller of CSI-Addons counts. All of them belong
	// to administrators: whoever may create a Deployment there can stop this controller.
	others []string
	// reported is set after the warning about missing fields.
	reported bool
	// running are the options of this process, and data that of the ConfigMap at the last check.
	running Options
	data    map[string]string
}

// await waits until the controller may run. After a minute it returns an error with the cause.
func (p *preflight) await(ctx context.Context) error {
	var cause error
	// A check that starts at the end of the minute finds the same cause, not the end of its context.
	checks, cancel := context.WithTimeout(ctx, preflightTimeout+preflightInterval)
	defer cancel()
	err := wait.PollUntilContextTimeout(ctx, preflightInterval, preflightTimeout, true,
		func(context.Context) (bool, error) {
			if cause = p.check(checks); cause != nil {
				log.FromContext(ctx).Info("The controller cannot start yet", "reason", cause.Error())
			}
			return cause == nil, nil
		})
	if err != nil {
		return fmt.Errorf("the controller cannot start: %w", cause)
	}
	if forbidden := p.forbidden(); len(forbidden) > 0 {
		log.FromContext(ctx).Info("The controller does not serve drivers in namespaces that it may not "+
			"read. "+grantRole, "namespaces", forbidden)
	}
	given, err := readOptions(ctx, p.client, p.settings.Namespace)
	if err == nil {
		p.running, _ = p.settings.Options.with(given.Data) // Start reports warnings
	}
	return err
}

const grantRole = "Grant it the ClusterRole csi-addons-driver-role by a RoleBinding in each of " +
	"them, or remove them from the flag --driver-namespaces"

func (p *preflight) forbidden() []string {
	return slices.DeleteFunc(p.settings.Drivers.Namespaces(), func(namespace string) bool {
		return slices.Contains(p.served, namespace)
	})
}

// check returns why the controller may not run. It extends the namespaces that this may read.
func (p *preflight) check(ctx context.Context) error {
	if err := p.discover(); err != nil {
		return err
	}
	if err := p.checkOthers(ctx); err != nil {
		return err
	}
	for _, namespace := range p.forbidden() {
		may, err := p.mayRead(ctx, namespace)
		if err != nil {
			return err
		}
		if may {
			p.served = append(p.served, namespace)
		}
	}
	if len(p.served) == 0 {
		return fmt.Errorf("it may not read CSIAddonsNodes and pods in the namespaces %s. %s",
			strings.Join(p.forbidden(), ", "), grantRole)
	}
	return nil
}

// Start checks again until ctx is done. It returns an error if the controller must restart, because
// another controller runs, or because it may read another namespace. It ends the controller if its
// options have changed.
func (p *preflight) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, recheckInterval, true,
		func(ctx context.Context) (bool, error) {
			served := len(p.served)
			err := errors.Join(p.check(ctx), p.checkOptions(ctx), p.report(ctx))
			switch {
			case errors.Is(err, errOther):
				return false, err
			case len(p.served) > served:
				return false, fmt.Errorf("the controller restarts, because it may read namespace %s now",
					p.served[served])
			case err != nil && ctx.Err() == nil:
				log.FromContext(ctx).Error(err, "Failed to check whether the controller must restart")
			}
			return false, nil
		})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the program ends
	}
	return err
}

// NeedLeaderElection says that each replica checks, also if it is not the leader.
func (*preflight) NeedLeaderElection() bool { return false }

// checkOptions ends the controller if a changed ConfigMap contains other options. If one is
// invalid, it records a warning and changes nothing.
func (p *preflight) checkOptions(ctx context.Context) error {
	found, err := readOptions(ctx, p.client, p.settings.Namespace)
	if err != nil || maps.Equal(found.Data, p.data) {
		return err
	}
	p.data = found.Data
	options, warnings := p.settings.Options.with(found.Data)
	switch {
	case len(warnings) > 0:
		text := strings.Join(warnings, "; ")
		log.FromContext(ctx).Info("Ignoring options of the ConfigMap", "reason", text)
		p.events.Eventf(found, nil, corev1.EventTypeWarning, "InvalidOption", "Apply",
			"Ignored: %.900s", text)
	case options != p.running:
		log.FromContext(ctx).Info("Restarting, because the options in the ConfigMap have changed")
		p.restart()
	}
	return nil
}

// discover returns an error if the API server does not know all kinds. It sets the namespaces of
// other controllers.
func (p *preflight) discover() error {
	if p.others != nil {
		return nil
	}
	for _, kind := range []string{
		"CSIAddonsNode", "NetworkFence", "NetworkFenceClass", "ReclaimSpaceCronJob", "ReclaimSpaceJob",
	} {
		_, err := p.client.RESTMapper().RESTMapping(schema.GroupKind{Group: v1alpha1.Group, Kind: kind})
		if err != nil {
			return fmt.Errorf("the cluster has no kinds of CSI-Addons: install the "+
				"CustomResourceDefinitions: %w", err)
		}
	}
	others := append([]string{p.settings.Namespace}, p.settings.OtherNamespaces...)
	// Only administrators install kinds.
	openShift := schema.GroupKind{Group: "config.openshift.io", Kind: "ClusterVersion"}
	_, err := p.client.RESTMapper().RESTMapping(openShift)
	switch {
	case err == nil:
		others = append(others, storageNamespace)
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("reading whether the cluster is an OpenShift: %w", err)
	}
	p.others = others
	return nil
}

// errOther means that another controller of CSI-Addons runs.
var errOther = errors.New("another controller of CSI-Addons runs in the cluster")

func (p *preflight) checkOthers(ctx context.Context) error {
	for _, namespace := range p.others {
		lease, deployment := &coordinationv1.Lease{}, &appsv1.Deployment{}
		err := p.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: LeaseName}, lease)
		if client.IgnoreNotFound(err) == nil && namespace != p.settings.Namespace {
			name := types.NamespacedName{Namespace: namespace, Name: DeploymentName}
			err = p.client.Get(ctx, name, deployment)
		}
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("looking for another controller in namespace %s: %w", namespace, err)
		case held(lease):
			return fmt.Errorf("%w: found the Lease %s/%s", errOther, namespace, LeaseName)
		case deployment.Name != "" && ptr.Deref(deployment.Spec.Replicas, 1) > 0:
			return fmt.Errorf("%w: found the Deployment %s/%s", errOther, namespace, DeploymentName)
		}
	}
	return nil
}

// held returns whether the holder of a Lease counts as running. A renewal in the future counts from
// the last write, whose time is that of the API server.
func held(lease *coordinationv1.Lease) bool {
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.RenewTime == nil {
		return false
	}
	renewed := lease.Spec.RenewTime.Time
	if renewed.After(time.Now()) {
		renewed = time.Time{}
		for _, write := range lease.ManagedFields {
			if write.Time != nil && write.Time.After(renewed) {
				renewed = write.Time.Time
			}
		}
	}
	duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return time.Now().Before(renewed.Add(min(duration, maxLease) + maxSkew))
}

func (p *preflight) mayRead(ctx context.Context, namespace string) (bool, error) {
	for _, list := range []client.ObjectList{&v1alpha1.CSIAddonsNodeList{}, &corev1.PodList{}} {
		err := p.client.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
		}
	}
	return true, nil
}
