package cluster

import (
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/guest"
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
			strings.Repeat("x", maxUnstable) + "y",
			strings.Repeat("x", guest.MaxMessage-len("... (truncated)")) + "... (truncated)",
		},
		"control characters": {"a\x00b\x1b[2J\nc\u0085", "a?b?[2J\nc?"},
		"order of lines":     {"line 2: b\nline 12: a\n", "line 2: b\nline 12: a"},
	}
	for name, tt := range tests {
		got := stableMessage(tt.message)
		assert.Check(t, is.Equal(got, tt.want), name)
		assert.Check(t, is.Equal(stableMessage(got), got), "%s: stabilized twice", name)
	}
}

func TestConditionsGetAReasonAndAMessage(t *testing.T) {
	t.Parallel()
	const fine, fault = "AsExpected: As expected", "Error: Unknown error; see the operator log"
	for name, want := range map[string][3]string{ // if True, False, Unknown
		"FooDegraded":    {fault, fine, fault},
		"FooAvailable":   {fine, fault, fault},
		"FooUpgradeable": {fine, fault, fault},
		"FooProgressing": {fine, fine, fault},
		"FooReachable":   {fine, fault, fault},
	} {
		for i, status := range []opv1.ConditionStatus{
			opv1.ConditionTrue, opv1.ConditionFalse, opv1.ConditionUnknown,
		} {
			c := applyopv1.OperatorCondition().WithType(name).WithStatus(status)
			complete(c)
			assert.Check(t, is.Equal(*c.Reason+": "+*c.Message, want[i]), "%s is %s", name, status)
			complete(c.WithReason("Why").WithMessage("what\n"))
			assert.Check(t, is.Equal(*c.Reason+": "+*c.Message, "Why: what"))
		}
	}
}

func TestConflictsAreNotReported(t *testing.T) {
	t.Parallel()
	overtaken := apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "deployments"},
		"driver", errors.New("the object has been modified; please apply your changes to the latest "+
			"version and try again"))
	degraded := func(message string) *applyopv1.OperatorConditionApplyConfiguration {
		return applyopv1.OperatorCondition().WithType("ADegraded").WithStatus(opv1.ConditionTrue).
			WithMessage(message)
	}
	for name, test := range map[string]struct {
		condition *applyopv1.OperatorConditionApplyConfiguration
		want      bool
	}{
		"overtaken": {degraded(overtaken.Error()), false},
		"overtaken, in a list": {
			degraded("\"a.yaml\" (string): " + overtaken.Error() +
				"\n\"b.yaml\" (string): " + overtaken.Error() + "\n"),
			false,
		},
		"overtaken, among others":   {degraded("no\n" + overtaken.Error()), true},
		"no message":                {degraded("\n").WithStatus(opv1.ConditionFalse), true},
		"another error":             {degraded("no"), true},
		"another kind of condition": {degraded(overtaken.Error()).WithType("AProgressing"), true},
	} {
		status := applyopv1.OperatorStatus().WithConditions(test.condition)
		assert.Check(t, is.Equal(CompleteStatus(status), test.want), "%s: written", name)
	}
}
