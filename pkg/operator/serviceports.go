package operator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// servicePorts repairs the ports of Services. library-go compares only the metadata, the selector
// and the type of a Service, so Prometheus would not find a port that was edited.
type servicePorts struct {
	kube     kubernetes.Interface
	required []requiredService
	// err is the result of the last sync.
	err error
}

// requiredService is the required state of a Service, and a lister of its current state.
type requiredService struct {
	*corev1.Service
	lister corelisters.ServiceLister
	// other is the required state while useOther returns true, nil if there is none.
	other    *corev1.Service
	useOther func() bool
}

func (r requiredService) ports() []corev1.ServicePort {
	if r.other != nil && r.useOther() {
		return r.other.Spec.Ports
	}
	return r.Spec.Ports
}

func (d *driver) newServicePorts(side flavour.Side, assets []bundle.Asset) (*servicePorts, error) {
	clients := d.cluster.Side(side)
	s := &servicePorts{kube: clients.Kube}
	for _, asset := range assets {
		kind, err := metadata(asset)
		if err != nil {
			return nil, err
		}
		if !isService(kind) {
			continue
		}
		var required requiredService
		if required.Service, err = decode[corev1.Service](asset); err != nil {
			return nil, err
		}
		if other, ok := d.csiAddons.find(asset.Name); ok {
			required.useOther = func() bool { return d.csiAddons.uses(other) }
			if required.other, err = decode[corev1.Service](other); err != nil {
				return nil, err
			}
		}
		informers := clients.ObjectInformers.For(required.Namespace, required.Name)
		required.lister = informers.Core().V1().Services().Lister()
		s.required = append(s.required, required)
	}
	return s, nil
}

func isService(object *metav1.PartialObjectMetadata) bool {
	return object.APIVersion == "v1" && object.Kind == "Service"
}

// before returns a function that repairs the ports and then calls sync.
func (s *servicePorts) before(sync factory.SyncFunc) factory.SyncFunc {
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		s.err = s.sync(ctx)
		return errors.Join(s.err, sync(ctx, syncCtx))
	}
}

// report adds the error to the condition Degraded of the static resources controller.
func (s *servicePorts) report(_ context.Context, c *cluster.Condition) {
	if s.err != nil {
		c.WithStatus(opv1.ConditionTrue).WithReason("SyncError").
			WithMessage(ptr.Deref(c.Message, "") + s.err.Error())
	}
}

func (s *servicePorts) sync(ctx context.Context) error {
	var errs []error
	for _, required := range s.required {
		errs = append(errs, s.repair(ctx, required))
	}
	return errors.Join(errs...)
}

func (s *servicePorts) repair(ctx context.Context, required requiredService) error {
	ports := required.ports()
	good := func(existing *corev1.Service, err error) bool {
		// The static resources controller creates a missing Service.
		return apierrors.IsNotFound(err) ||
			err == nil && equality.Semantic.DeepEqual(existing.Spec.Ports, ports)
	}
	if good(required.lister.Services(required.Namespace).Get(required.Name)) {
		return nil
	}
	services := s.kube.CoreV1().Services(required.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		existing, err := services.Get(ctx, required.Name, metav1.GetOptions{})
		if good(existing, err) {
			return nil
		}
		if err == nil {
			existing.Spec.Ports = ports
			_, err = services.Update(ctx, existing, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("repairing the ports of Service %s/%s: %w",
			required.Namespace, required.Name, err)
	}
	return nil
}
