package cluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/genericoperatorclient"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
)

// addOperatorClient makes the client of the ClusterCSIDriver and its informer.
func (c *Cluster) addOperatorClient(t Target) error {
	client, informers, err := genericoperatorclient.NewClusterScopedOperatorClientWithConfigName(
		t.Clock,
		withoutThrottle(t.Guest),
		opv1.GroupVersion.WithResource("clustercsidrivers"),
		opv1.GroupVersion.WithKind("ClusterCSIDriver"),
		t.Driver,
		extractSpec,
		extractStatus,
	)
	if err != nil {
		return fmt.Errorf("making client of ClusterCSIDriver %q: %w", t.Driver, err)
	}
	c.Operator = client
	c.AddStarter(informers)
	return nil
}

// Managed tells whether the operator reconciles. It does so in the state Managed only, like library-go's controllers of
// Deployments and DaemonSets; in every other state, the driver stays as it is.
func Managed(client v1helpers.OperatorClient) (bool, error) {
	spec, _, _, err := client.GetOperatorState()
	if err != nil {
		return false, err
	}
	return spec.ManagementState == opv1.Managed, nil
}

// StorageClassState returns what the ClusterCSIDriver's spec.storageClassState says of the driver's StorageClasses. A
// ClusterCSIDriver that is not in the cache counts as Managed; an unknown value is an error.
func (c *Cluster) StorageClassState(driver string) (opv1.StorageClassStateName, error) {
	obj, found, err := c.Operator.Informer().GetStore().GetByKey(driver)
	if err != nil || !found {
		return opv1.ManagedStorageClass, err
	}
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return "", fmt.Errorf("the cache of ClusterCSIDrivers holds a %T", obj)
	}
	csiDriver, err := decode(object)
	if err != nil {
		return "", err
	}
	switch state := csiDriver.Spec.StorageClassState; state {
	case "":
		return opv1.ManagedStorageClass, nil
	case opv1.ManagedStorageClass, opv1.UnmanagedStorageClass, opv1.RemovedStorageClass:
		return state, nil
	default:
		return "", fmt.Errorf("spec.storageClassState of ClusterCSIDriver %s is %q: set it to Managed, Unmanaged or Removed", driver, state)
	}
}

func decode(obj *unstructured.Unstructured) (*opv1.ClusterCSIDriver, error) {
	ret := &opv1.ClusterCSIDriver{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, ret); err != nil {
		return nil, fmt.Errorf("decoding ClusterCSIDriver %q: %w", obj.GetName(), err)
	}
	return ret, nil
}

// extractSpec returns what fieldManager has applied to the spec, nil if nothing.
func extractSpec(obj *unstructured.Unstructured, fieldManager string) (*applyopv1.OperatorSpecApplyConfiguration, error) {
	csiDriver, err := decode(obj)
	if err != nil {
		return nil, err
	}
	applied, err := applyopv1.ExtractClusterCSIDriver(csiDriver, fieldManager)
	if err != nil || applied.Spec == nil {
		return nil, err
	}
	return &applied.Spec.OperatorSpecApplyConfiguration, nil
}

// extractStatus returns what fieldManager has applied to the status, nil if nothing.
func extractStatus(obj *unstructured.Unstructured, fieldManager string) (*applyopv1.OperatorStatusApplyConfiguration, error) {
	csiDriver, err := decode(obj)
	if err != nil {
		return nil, err
	}
	applied, err := applyopv1.ExtractClusterCSIDriverStatus(csiDriver, fieldManager)
	if err != nil || applied.Status == nil {
		return nil, err
	}
	return &applied.Status.OperatorStatusApplyConfiguration, nil
}
