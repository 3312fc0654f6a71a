package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/staticresourcecontroller"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/test/clustertest"
)

func TestStableMessageRemovesWhatChanges(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ message, want string }{
		"nothing": {"", ""},
		"hook": {
			"error running hook function (index=12): no HostedControlPlane is here",
			"no HostedControlPlane is here",
		},
		"as it is": {
			`Get "https://keystone.example:5000/v3": dial tcp 10.0.0.2:5000: connect: connection refused`,
			`Get "https://keystone.example:5000/v3": dial tcp 10.0.0.2:5000: connect: connection refused`,
		},
		"port of IPv4": {
			"read tcp 10.0.0.1:48322->10.0.0.2:5000: read: connection reset by peer",
			"read tcp 10.0.0.2:5000: read: connection reset by peer",
		},
		"port of IPv6": {
			"read tcp [fd00::1%eth0]:48322->[fd00::2]:5000: i/o timeout",
			"read tcp [fd00::2]:5000: i/o timeout",
		},
		"port of a name server's client": {
			"lookup keystone on 10.0.0.10:53: read udp 10.0.0.1:33333->10.0.0.10:53: i/o timeout",
			"lookup keystone on 10.0.0.10:53: read udp 10.0.0.10:53: i/o timeout",
		},
		"request id": {
			"Forbidden (Request-ID: req-6b9e6c0e-4a3e-4d6b-9d0b-2a7c1c8f0e11) by policy",
			"Forbidden by policy",
		},
		"bare request id": {"failed req-6b9e6c0e-4a3e-4d6b-9d0b-2a7c1c8f0e11", "failed"},
		"timestamps": {
			"expired at 2026-11-21T09:44:00.123Z, now 2026-11-21 09:45:00+01:00",
			"expired at (time), now (time)",
		},
		"resource versions": {
			"Precondition failed: ResourceVersion: 81/82",
			"Precondition failed: ResourceVersion: (changed)",
		},
		"a long message": {
			strings.Repeat("x", maxMessage) + "y",
			strings.Repeat("x", maxMessage-len("... (truncated)")) + "... (truncated)",
		},
		"order and repetition": {"b failed\na failed\nb failed\n", "a failed\nb failed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := stableMessage(tt.message)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if again := stableMessage(got); again != got {
				t.Errorf("stabilized twice it is %q", again)
			}
		})
	}
}

func TestConditionsGetAReasonAndAMessage(t *testing.T) {
	t.Parallel()
	const fine, fault = "AsExpected: As expected", "Error: Unknown error; see the operator log"
	tests := map[string]map[opv1.ConditionStatus]string{
		"FooDegraded": {
			opv1.ConditionTrue: fault, opv1.ConditionFalse: fine, opv1.ConditionUnknown: fault,
		},
		"FooAvailable": {
			opv1.ConditionTrue: fine, opv1.ConditionFalse: fault, opv1.ConditionUnknown: fault,
		},
		"FooUpgradeable": {
			opv1.ConditionTrue: fine, opv1.ConditionFalse: fault, opv1.ConditionUnknown: fault,
		},
		"FooProgressing": {
			opv1.ConditionTrue: fine, opv1.ConditionFalse: fine, opv1.ConditionUnknown: fault,
		},
		"FooReachable": {
			opv1.ConditionTrue: fine, opv1.ConditionFalse: fault, opv1.ConditionUnknown: fault,
		},
	}
	for name, byStatus := range tests {
		for status, want := range byStatus {
			t.Run(name+string(status), func(t *testing.T) {
				t.Parallel()
				empty := applyopv1.OperatorCondition().WithType(name).WithStatus(status)
				complete(empty)
				if got := *empty.Reason + ": " + *empty.Message; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				given := applyopv1.OperatorCondition().
					WithType(name).
					WithStatus(status).
					WithReason("Why").
					WithMessage("what\n")
				complete(given)
				if got := *given.Reason + ": " + *given.Message; got != "Why: what" {
					t.Errorf("got %q, want what was given", got)
				}
			})
		}
	}
}

// A controller of library-go fails twice in the same way, over two connections.
func TestRepeatedFailureIsWrittenOnce(t *testing.T) {
	t.Parallel()
	port := 48000
	kube := fake.NewClientset()
	kube.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		port++
		return true, nil, fmt.Errorf(
			"read tcp 10.0.0.1:%d->10.0.0.2:6443: connection reset by peer", port,
		)
	})
	recorder := events.NewInMemoryRecorder("test", clock.RealClock{})
	client := newFakeClient(t)
	read := func(name string) ([]byte, error) {
		return []byte(
			`{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": "` +
				name + `"}}`,
		), nil
	}
	controller := staticresourcecontroller.NewStaticResourceController("Foo", read, []string{"b", "a"},
		(&resourceapply.ClientHolder{}).WithKubernetes(kube), newConditionWriter(client), recorder)
	for range 2 {
		if err := controller.Sync(t.Context(), factory.NewSyncContext("Foo", recorder)); err == nil {
			t.Fatal("no error although nothing can be applied")
		}
	}
	const failure = `(string): read tcp 10.0.0.2:6443: connection reset by peer`
	want := []opv1.OperatorCondition{
		condition("FooDegraded", opv1.ConditionTrue, "SyncError", `"a" `+failure+"\n"+`"b" `+failure),
	}
	if diff := cmp.Diff(want, client.SortedConditions(t)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if writes := client.Writes(); writes != 1 {
		t.Errorf("%d writes of one failure", writes)
	}
}

func TestFailedWriteIsReturned(t *testing.T) {
	t.Parallel()
	client := newFakeClient(t)
	client.RefuseWrites(1)
	status := applyopv1.OperatorStatus().
		WithConditions(applyopv1.OperatorCondition().WithType("FooDegraded").
			WithStatus(opv1.ConditionFalse))
	err := newConditionWriter(client).ApplyOperatorStatus(t.Context(), "test", status)
	if err == nil || errors.Unwrap(err) != nil {
		t.Errorf("got %v, want the API server's own error", err)
	}
}

func TestConflictsAreNotReported(t *testing.T) {
	t.Parallel()
	overtaken := apierrors.NewConflict(
		schema.GroupResource{Group: "apps", Resource: "deployments"},
		"driver",
		errors.New(
			"the object has been modified; please apply your changes to the latest version and try again",
		),
	)
	degraded := func(message string) *applyopv1.OperatorConditionApplyConfiguration {
		return applyopv1.OperatorCondition().WithType("ADegraded").WithStatus(opv1.ConditionTrue).
			WithMessage(message)
	}
	for name, test := range map[string]struct {
		condition *applyopv1.OperatorConditionApplyConfiguration
		want      int
	}{
		"overtaken": {degraded(overtaken.Error()), 0},
		"overtaken, in a list": {
			degraded("\"a.yaml\" (string): " + overtaken.Error() +
				"\n\"b.yaml\" (string): " + overtaken.Error() + "\n"),
			0,
		},
		"overtaken, among others":   {degraded("no\n" + overtaken.Error()), 1},
		"no message":                {degraded("\n").WithStatus(opv1.ConditionFalse), 1},
		"another error":             {degraded("no"), 1},
		"another kind of condition": {degraded(overtaken.Error()).WithType("AProgressing"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newFakeClient(t)
			status := applyopv1.OperatorStatus().WithConditions(test.condition)
			err := newConditionWriter(client).ApplyOperatorStatus(t.Context(), "manager", status)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(client.SortedConditions(t)); got != test.want {
				t.Errorf("%d conditions, want %d", got, test.want)
			}
		})
	}
}

// behindClient is a client whose cache never contains its own writes.
type behindClient struct {
	*clustertest.Operator

	clock *testingclock.FakePassiveClock
	times []time.Time
}

func (c *behindClient) ApplyOperatorStatus(
	_ context.Context, _ string, status *applyopv1.OperatorStatusApplyConfiguration,
) error {
	v1helpers.SetApplyConditionsLastTransitionTime(c.clock, &status.Conditions, nil)
	c.times = append(c.times, status.Conditions[0].LastTransitionTime.Time)
	return nil
}

func TestConditionKeepsItsTransitionTimeWhileTheCacheIsBehind(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	client := &behindClient{
		Operator: newFakeClient(t), clock: testingclock.NewFakePassiveClock(began),
	}
	writer := newConditionWriter(client)
	for i, status := range []opv1.ConditionStatus{
		opv1.ConditionTrue, opv1.ConditionTrue, opv1.ConditionFalse, opv1.ConditionFalse,
		opv1.ConditionTrue,
	} {
		client.clock.SetTime(began.Add(time.Duration(i) * time.Second))
		condition := applyopv1.OperatorCondition().WithType("FooDegraded").WithStatus(status)
		if err := writer.ApplyOperatorStatus(t.Context(), "manager",
			applyopv1.OperatorStatus().WithConditions(condition)); err != nil {
			t.Fatal(err)
		}
	}
	want := []time.Time{
		began, began, began.Add(2 * time.Second), began.Add(2 * time.Second), began.Add(4 * time.Second),
	}
	if diff := cmp.Diff(want, client.times); diff != "" {
		t.Errorf("transition times (-want +got):\n%s", diff)
	}
}
