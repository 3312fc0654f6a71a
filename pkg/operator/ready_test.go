package operator

import (
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/status"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// available returns the conditions of the workloads of plugins.
func available(of opv1.ConditionStatus) []opv1.OperatorCondition {
	var all []opv1.OperatorCondition
	for _, name := range []string{
		"NFSDriverNodeService", "OpenStackManilaDriverControllerService",
		"OpenStackManilaDriverNodeService",
	} {
		all = append(all, condition(name+"ControllerAvailable", of, "Deploying", "no pod is available"))
	}
	return all
}

// undecodable is a client of a ClusterCSIDriver whose spec cannot be decoded.
type undecodable struct{ *clustertest.Operator }

func (undecodable) GetOperatorState() (*opv1.OperatorSpec, *opv1.OperatorStatus, string, error) {
	return nil, nil, "", errors.New("field spec.logLevel is not a string")
}

func TestReadySummarizesTheOtherConditions(t *testing.T) {
	t.Parallel()
	const unmanaged = "The operator does not maintain the driver, and other conditions may be out " +
		"of date. Set spec.managementState to Managed to resume"
	for name, test := range map[string]struct {
		state           opv1.ManagementState
		conditions      []opv1.OperatorCondition
		status          opv1.ConditionStatus
		reason, message string
	}{
		"ready": {
			opv1.Managed, available(opv1.ConditionTrue),
			opv1.ConditionTrue, "AsExpected", "The driver is ready",
		},
		"a workload is missing": {
			opv1.Managed, available(opv1.ConditionTrue)[1:], opv1.ConditionFalse,
			"Deploying", "Available: The operator has reported the state of 2 of 3 workloads",
		},
		"unmanaged": {
			opv1.Unmanaged, available(opv1.ConditionFalse),
			opv1.ConditionUnknown, "Unmanaged", unmanaged,
		},
		"undecodable": {
			"", nil, opv1.ConditionFalse, "SyncError", "field spec.logLevel is not a string",
		},
	} {
		d := assembled(t, flavour.Standalone, plugins()...)[0]
		client := d.operator.(*clustertest.Operator)
		client.SetConditions(t, test.conditions...)
		setState(t, client, test.state)
		if test.state == "" {
			d.operator = undecodable{client}
		}
		want := condition("Ready", test.status, test.reason, test.message)
		sync := syncer(t, d, d.readyController)
		for range 2 {
			assert.NilError(t, sync())
			assert.Check(t, is.DeepEqual(want, client.Condition(t, "Ready")), name)
		}
		assert.Check(t, is.Equal(client.Writes(), 1), "writes, %s", name)
	}
}

// What a process completed counts for the next one, except while the driver was stalled or not
// wanted: then the present generation was observed without it.
func TestNextProcessKnowsWhatIsCompleted(t *testing.T) {
	t.Parallel()
	const stalled, ready, waits = "Stalled", "Ready=True AsExpected", "Reconciling=True Deploying"
	for name, test := range map[string]struct {
		earlier   opv1.OperatorCondition
		observed  int64 // by the earlier process
		completed int64 // by this one
		state     opv1.ManagementState
		want      int64
		says      string
	}{
		"completed":    {condition("Ready", "True", "AsExpected", ""), 2, 0, opv1.Managed, 2, ready},
		"changed":      {condition("Ready", "True", "AsExpected", ""), 1, 0, opv1.Managed, 1, waits},
		"was stalled":  {condition(stalled, "True", "Invalid", ""), 2, 0, opv1.Managed, -1, waits},
		"was unwanted": {condition("Ready", "True", "DriverDisabled", ""), 2, 0, opv1.Managed, -1, waits},
		"first":        {condition("Ready", "False", "Deploying", ""), -1, 2, opv1.Managed, 2, ready},
		"unmanaged": {
			condition("Ready", "True", "AsExpected", ""), 1, 0, opv1.Unmanaged, 2, "Ready=True Unmanaged",
		},
	} {
		d := assembled(t, flavour.Kubernetes, plugins()...)[0]
		client := d.operator.(*clustertest.Operator)
		object, err := client.GetObjectMeta()
		assert.NilError(t, err)
		object.UID, object.Generation = "a", 2
		client.SetConditions(t, append(available(opv1.ConditionTrue)[:d.workloads], test.earlier)...)
		assert.NilError(t, client.ApplyOperatorStatus(t.Context(), "earlier",
			applyopv1.OperatorStatus().WithObservedGeneration(test.observed)))
		setState(t, client, test.state)
		completes := d.cluster.RolledOut.Add()
		sync := syncer(t, d, d.readyController)
		completes(cluster.Generation{UID: "a", Number: test.completed})
		assert.NilError(t, sync())
		_, status, _, err := client.GetOperatorState()
		assert.NilError(t, err)
		assert.Check(t, is.Equal(status.ObservedGeneration, test.want), name)
		kind, _, _ := strings.Cut(test.says, "=")
		c := client.Condition(t, kind)
		assert.Check(t, is.Equal(c.Type+"="+string(c.Status)+" "+c.Reason, test.says), name)
	}
}

// cluster-storage-operator (CSO) combines conditions with this function of library-go, and reports
// a driver as disabled if a type ends in Disabled.
func TestClusterStorageOperatorIgnoresConditionsForAdministrators(t *testing.T) {
	t.Parallel()
	combined := func(conditions []opv1.OperatorCondition) map[string]opv1.OperatorCondition {
		all := map[string]opv1.OperatorCondition{}
		for suffix, expected := range map[string]opv1.ConditionStatus{
			"Available": opv1.ConditionTrue, "Upgradeable": opv1.ConditionTrue,
			"Progressing": opv1.ConditionFalse, "Degraded": opv1.ConditionFalse,
			"Disabled": opv1.ConditionFalse,
		} {
			all[suffix] = status.UnionCondition(suffix, expected, nil, conditions...)
		}
		return all
	}
	want := combined(available(opv1.ConditionTrue))
	for _, conditionType := range []string{
		"Ready", "ManilaShareTypesServed", "ManilaSnapshotsServed", "ManilaCSIAddonsActive",
		"ManilaUserConfigValid", "ManilaCloudReachable", "ManilaCredentialsAccepted",
		"ManilaCredentialsExpireSoon",
	} {
		for _, of := range []opv1.ConditionStatus{
			opv1.ConditionTrue, opv1.ConditionFalse, opv1.ConditionUnknown,
		} {
			got := combined(append(available(opv1.ConditionTrue), condition(conditionType, of, "Why", "m")))
			assert.Check(t, is.DeepEqual(want, got), "%s=%s changes what CSO reports", conditionType, of)
		}
	}
}
