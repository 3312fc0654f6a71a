package operator

import (
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// newFakeClient returns a fake client of a ClusterCSIDriver in the state Managed.
func newFakeClient(t *testing.T) *clustertest.Operator {
	t.Helper()
	return clustertest.New(t, clustertest.Seed{}).State
}

// setSpec replaces the spec of the ClusterCSIDriver.
func setSpec(t *testing.T, client v1helpers.OperatorClient, spec opv1.OperatorSpec) {
	t.Helper()
	_, _, version, err := client.GetOperatorState()
	if err == nil {
		_, _, err = client.UpdateOperatorSpec(t.Context(), version, &spec)
	}
	assert.NilError(t, err)
}

func setState(t *testing.T, client v1helpers.OperatorClient, state opv1.ManagementState) {
	t.Helper()
	setSpec(t, client, opv1.OperatorSpec{ManagementState: state})
}

func condition(
	name string, status opv1.ConditionStatus, reason, message string,
) opv1.OperatorCondition {
	return opv1.OperatorCondition{Type: name, Status: status, Reason: reason, Message: message}
}

func infrastructure(f flavour.Flavour) []runtime.Object {
	object := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	object.Status.ControlPlaneTopology = configv1.HighlyAvailableTopologyMode
	if f == flavour.HyperShift {
		object.Status.ControlPlaneTopology = configv1.ExternalTopologyMode
	}
	object.Status.InfrastructureName = "cluster-1"
	return []runtime.Object{object}
}

// syncer builds a controller of a driver, and returns a function that runs it once.
func syncer(
	t *testing.T, d *driver, build func(name string) (factory.Controller, error),
) func() error {
	t.Helper()
	controller, err := build("Test")
	assert.Assert(t, err == nil && controller != nil, "controller %v, %v", controller, err)
	return func() error { return syncOnce(t, d, controller) }
}

func syncOnce(t *testing.T, d *driver, c factory.Controller) error {
	t.Helper()
	return c.Sync(t.Context(), factory.NewSyncContext(c.Name(), d.events))
}

// refuse makes requests fail until the returned function is called.
func refuse(fake *clienttesting.Fake, verb, resource string, err error) (allow func()) {
	var allowed atomic.Bool
	fake.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return !allowed.Load(), nil, err
	})
	return func() { allowed.Store(true) }
}
