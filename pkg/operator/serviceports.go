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
	"sigs.k8s.io/yaml"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/management"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
)

// servicePorts repairs the ports of Services. library-go compares a Service's metadata, selector and type only: ports that
// somebody edited would stay, and Prometheus would find nobody.
type servicePorts struct {
	operator v1helpers.OperatorClient
	kube     kubernetes.Interface
	required []requiredService
}

// requiredService is a Service as it should be, and what finds it as it is.
type requiredService struct {
	*corev1.Service
	lister corelisters.ServiceLister
}

// newServicePorts takes the Services among the assets.
func (d *driver) newServicePorts(side bundle.Side, assets []bundle.Asset) (*servicePorts, error) {
	clients := d.cluster.Side(side)
	s := &servicePorts{operator: d.operator, kube: clients.Kube}
	for _, asset := range assets {
		var service corev1.Service
		kind, err := metadata(asset)
		if err != nil {
			return nil, err
		}
		if kind.APIVersion != "v1" || kind.Kind != "Service" {
			continue
		}
		if err := yaml.UnmarshalStrict(asset.Data, &service); err != nil {
			return nil, fmt.Errorf("decoding asset %q: %w", asset.Name, err)
		}
		lister := clients.Named.For(service.Namespace, service.Name).Core().V1().Services().Lister()
		s.required = append(s.required, requiredService{&service, lister})
	}
	return s, nil
}

// before returns sync with the repair before it.
func (s *servicePorts) before(sync factory.SyncFunc) factory.SyncFunc {
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		return errors.Join(s.sync(ctx), sync(ctx, syncCtx))
	}
}

func (s *servicePorts) sync(ctx context.Context) error {
	spec, _, _, err := s.operator.GetOperatorState()
	if err != nil || !management.IsOperatorManaged(spec.ManagementState) {
		return err
	}
	var errs []error
	for _, required := range s.required {
		errs = append(errs, s.repair(ctx, required))
	}
	return errors.Join(errs...)
}

func (s *servicePorts) repair(ctx context.Context, required requiredService) error {
	existing, err := required.lister.Services(required.Namespace).Get(required.Name)
	if apierrors.IsNotFound(err) || err == nil && equality.Semantic.DeepEqual(existing.Spec.Ports, required.Spec.Ports) {
		return nil // one that is missing comes back as a whole
	}
	if err == nil {
		repaired := existing.DeepCopy()
		repaired.Spec.Ports = required.Spec.Ports
		_, err = s.kube.CoreV1().Services(required.Namespace).Update(ctx, repaired, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("repairing the ports of Service %s/%s: %w", required.Namespace, required.Name, err)
	}
	return nil
}
