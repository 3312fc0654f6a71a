package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/retry"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// staticObjects applies assets with library-go's functions, and reports failures in a condition.
type staticObjects struct {
	*driver
	controller string
	side       flavour.Side
	kube       kubernetes.Interface
	clients    *resourceapply.ClientHolder
	cache      resourceapply.ResourceCache
	read       resourceapply.AssetFunc
	objects    []staticObject
	// optional means that the API server may not serve the kind of the objects yet, or any more.
	optional bool
}

type staticObject struct {
	asset, kind, name string
	// wanted returns whether to apply it; nil means always.
	wanted func() bool
	// service caches a Service.
	service corelisters.ServiceNamespaceLister
}

// rbac returns Role, RoleBinding or "".
func (o staticObject) rbac() string {
	switch kind := strings.TrimPrefix(o.kind, "Cluster"); kind {
	case "Role", "RoleBinding":
		return kind
	}
	return ""
}

func (d *driver) newStaticObjects(name string, side flavour.Side) *staticObjects {
	clients := d.cluster.Side(side)
	return &staticObjects{
		driver: d, controller: name, side: side, kube: clients.Kube,
		cache: resourceapply.NewResourceCache(),
		clients: (&resourceapply.ClientHolder{}).WithKubernetes(clients.Kube).
			WithDynamicClient(clients.Dynamic),
	}
}

// instance returns the name of the controller, and of the field manager of its condition. It is
// that of library-go's controller, with which earlier releases wrote the condition.
func (s *staticObjects) instance() string {
	return factory.ControllerInstanceName(s.controller, "StaticResources")
}

// apply applies all objects: roles at the same time, then bindings, and then the others one by one.
//
// The API server lists all bindings to check whether the operator may grant the permissions. The
// list is consistent, so it waits up to 100 ms until the API server knows that its cache contains
// all changes. One after the other, the roles of a driver take more than a second.
func (s *staticObjects) apply(ctx context.Context, syncCtx factory.SyncContext) error {
	var all []error
	for _, kind := range []string{"Role", "RoleBinding", ""} {
		var running sync.WaitGroup
		errs := make([]error, len(s.objects))
		for i, o := range s.objects {
			if o.rbac() != kind || o.wanted != nil && !o.wanted() {
				continue
			}
			apply := func() { errs[i] = s.applyOne(ctx, syncCtx, o.asset) }
			if kind != "" {
				running.Go(apply)
				continue
			}
			apply() // library-go's cache is not safe for concurrent use
		}
		running.Wait()
		all = append(all, errs...)
	}
	return errors.Join(all...)
}

func (s *staticObjects) applyOne(
	ctx context.Context, syncCtx factory.SyncContext, asset string,
) error {
	err := resourceapply.ApplyDirectly(ctx, s.clients, syncCtx.Recorder(), s.cache, s.read,
		asset)[0].Error
	if s.optional && apierrors.IsNotFound(err) {
		syncCtx.Queue().AddAfter(syncCtx.QueueKey(), refusedPoll)
		return nil
	}
	if err == nil {
		return nil
	}
	return s.failed(s.side, s.read, asset, err)
}

// report writes the condition about an error, and returns both errors.
func (s *staticObjects) report(ctx context.Context, err error) error {
	c := cluster.NewCondition(s.controller+opv1.OperatorStatusTypeDegraded, opv1.ConditionFalse,
		"AsExpected", "")
	if err != nil {
		c.WithStatus(opv1.ConditionTrue).WithReason("SyncError").WithMessage(err.Error())
	}
	return errors.Join(err, cluster.ApplyConditions(ctx, s.operator, s.instance(), c))
}

// repairPorts repairs the ports of Services. library-go compares only the metadata, the selector
// and the type of a Service, so Prometheus would not find a port that was edited.
func (s *staticObjects) repairPorts(ctx context.Context) error {
	var errs []error
	for _, o := range s.objects {
		if o.service != nil {
			errs = append(errs, s.repair(ctx, o))
		}
	}
	return errors.Join(errs...)
}

func (s *staticObjects) repair(ctx context.Context, o staticObject) error {
	text, err := s.read(o.asset)
	if err != nil {
		return err
	}
	required, err := decode[corev1.Service](bundle.Asset{Name: o.asset, Data: text})
	if err != nil {
		return err
	}
	good := func(existing *corev1.Service, err error) bool {
		return apierrors.IsNotFound(err) || // apply creates it
			err == nil && equality.Semantic.DeepEqual(existing.Spec.Ports, required.Spec.Ports)
	}
	if good(o.service.Get(o.name)) {
		return nil
	}
	services := s.kube.CoreV1().Services(required.Namespace)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		existing, err := services.Get(ctx, o.name, metav1.GetOptions{})
		if good(existing, err) {
			return nil
		}
		if err == nil {
			existing.Spec.Ports = required.Spec.Ports
			_, err = services.Update(ctx, existing, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("repairing the ports of Service %s/%s: %w", required.Namespace, o.name, err)
	}
	return nil
}
