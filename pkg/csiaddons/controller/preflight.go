package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
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
	// openShiftGroup is an API group that only OpenShift has. Only administrators install groups.
	openShiftGroup = "config.openshift.io"
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
	client  client.Reader
	cluster discovery.DiscoveryInterface

	// served and forbidden are the namespaces of drivers that the controller may read, and may not.
	// A cache of objects in a forbidden namespace would never be complete.
	served, forbidden []string
}

// await waits until the controller may run. After a minute it returns an error with the cause.
func (p *preflight) await(ctx context.Context) error {
	var cause error
	err := wait.PollUntilContextTimeout(ctx, preflightInterval, preflightTimeout, true,
		func(ctx context.Context) (bool, error) {
			if cause = p.check(ctx); cause != nil {
				log.FromContext(ctx).Info("The controller cannot start yet", "reason", cause.Error())
			}
			return cause == nil, nil
		})
	if err != nil {
		return fmt.Errorf("the controller cannot start: %w", cause)
	}
	if len(p.forbidden) > 0 {
		log.FromContext(ctx).Info("The controller does not serve drivers in namespaces that it may not "+
			"read. "+grantRole, "namespaces", p.forbidden)
	}
	return nil
}

const grantRole = "Grant it the ClusterRole csi-addons-driver-role by a RoleBinding in each of " +
	"them, or remove them from the flag --driver-namespaces"

func (p *preflight) check(ctx context.Context) error {
	if err := p.checkKinds(); err != nil {
		return err
	}
	if err := p.checkOthers(ctx); err != nil {
		return err
	}
	p.served, p.forbidden = nil, nil
	for _, namespace := range p.settings.Drivers.Namespaces() {
		switch may, err := p.mayRead(ctx, namespace); {
		case err != nil:
			return err
		case may:
			p.served = append(p.served, namespace)
		default:
			p.forbidden = append(p.forbidden, namespace)
		}
	}
	if len(p.served) == 0 {
		return fmt.Errorf("it may not read CSIAddonsNodes and pods in the namespaces %s. %s",
			strings.Join(p.forbidden, ", "), grantRole)
	}
	return nil
}

// Start checks again until ctx is done. It returns an error if the controller must restart, because
// another controller runs, or because it may read another namespace.
func (p *preflight) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, recheckInterval, false,
		func(ctx context.Context) (bool, error) {
			err := p.checkOthers(ctx)
			if _, other := errors.AsType[*otherControllerError](err); other {
				return false, err
			}
			for _, namespace := range p.forbidden {
				may, failed := p.mayRead(ctx, namespace)
				if may {
					return false, fmt.Errorf("the controller restarts, because it may read namespace %s now",
						namespace)
				}
				err = errors.Join(err, failed)
			}
			if err != nil && ctx.Err() == nil {
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

// checkKinds returns an error if the API server does not know all kinds.
func (p *preflight) checkKinds() error {
	version := v1alpha1.GroupVersion().String()
	list, err := p.cluster.ServerResourcesForGroupVersion(version)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the kinds of %s: %w", version, err)
	}
	missing := []string{
		"CSIAddonsNode", "NetworkFence", "NetworkFenceClass", "ReclaimSpaceCronJob", "ReclaimSpaceJob",
	}
	if err == nil {
		missing = slices.DeleteFunc(missing, func(kind string) bool {
			return slices.ContainsFunc(list.APIResources, func(one metav1.APIResource) bool {
				return one.Kind == kind
			})
		})
	}
	if len(missing) > 0 {
		return fmt.Errorf("the cluster has no kinds %s of %s: install the CustomResourceDefinitions",
			strings.Join(missing, ", "), version)
	}
	return nil
}

// otherControllerError says that another controller of CSI-Addons runs.
type otherControllerError struct{ found string }

// Error implements error.
func (o *otherControllerError) Error() string {
	return "another controller of CSI-Addons runs in the cluster: found " + o.found
}

// checkOthers returns an *otherControllerError if there is one.
func (p *preflight) checkOthers(ctx context.Context) error {
	namespaces, err := p.otherNamespaces()
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		var lease coordinationv1.Lease
		name := types.NamespacedName{Namespace: namespace, Name: LeaseName}
		err := p.client.Get(ctx, name, &lease)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("reading Lease %s: %w", name, err)
		case err == nil && held(&lease):
			return &otherControllerError{"the Lease " + name.String()}
		case namespace == p.settings.Namespace: // the Deployment is that of this controller
			continue
		}
		var deployment appsv1.Deployment
		name.Name = DeploymentName
		err = p.client.Get(ctx, name, &deployment)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("reading Deployment %s: %w", name, err)
		case err == nil && ptr.Deref(deployment.Spec.Replicas, 1) > 0:
			return &otherControllerError{"the Deployment " + name.String()}
		}
	}
	return nil
}

// otherNamespaces returns the namespaces in which another controller of CSI-Addons counts. All of
// them belong to administrators: whoever may create a Deployment there can stop this controller.
func (p *preflight) otherNamespaces() ([]string, error) {
	found := append([]string{p.settings.Namespace}, p.settings.OtherNamespaces...)
	groups, err := p.cluster.ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("reading the API groups of the cluster: %w", err)
	}
	if slices.ContainsFunc(groups.Groups, func(group metav1.APIGroup) bool {
		return group.Name == openShiftGroup
	}) {
		found = append(found, storageNamespace)
	}
	return found, nil
}

// held returns whether the holder of a Lease counts as running.
func held(lease *coordinationv1.Lease) bool {
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.RenewTime == nil {
		return false
	}
	duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return time.Now().Before(lease.Spec.RenewTime.Add(min(duration, maxLease) + maxSkew))
}

// mayRead returns whether the controller may list what it watches in a namespace.
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
