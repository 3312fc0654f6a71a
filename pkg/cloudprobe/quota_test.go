package cloudprobe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// quotaFixture is a fixture whose OpenStack shows quotas.
type quotaFixture struct {
	*fixture
	clock    *clocktesting.FakeClock
	found    []openstack.Quota
	err      error
	asked    int
	registry metrics.KubeRegistry
}

func newQuotaFixture(t *testing.T, conditions ...opv1.OperatorCondition) *quotaFixture {
	t.Helper()
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	f := &quotaFixture{fixture: newFixture(t, c, conditions...), clock: c}
	f.finds(available())
	f.Driver = "manila.csi.openstack.org"
	f.Client = func(context.Context) (*openstack.Client, error) { return &openstack.Client{}, nil }
	f.Probe.Quotas = func(*openstack.Client, context.Context) ([]openstack.Quota, error) {
		if f.asked++; f.err != nil {
			return nil, f.err
		}
		return f.found, nil
	}
	f.registry = metrics.NewKubeRegistry()
	assert.NilError(t, f.Metrics.RegisterWith(f.registry.Register))
	return f
}

// uses makes the use of a quota of 1000 a number, and syncs until it is known.
func (f *quotaFixture) uses(t *testing.T, used int) {
	t.Helper()
	f.found = []openstack.Quota{{Resource: "gigabytes", Limit: 1000, Used: used}}
	f.later(t, quotaInterval)
}

func (f *quotaFixture) later(t *testing.T, d time.Duration) {
	t.Helper()
	f.clock.Step(d)
	assert.NilError(t, f.sync(t.Context()))
}

// quota returns reason and message of the condition, "" without one.
func (f *quotaFixture) quota(t *testing.T) (reason, message string) {
	t.Helper()
	for _, c := range f.client.SortedConditions(t) {
		if c.Type == "ManilaQuota" {
			assert.Check(t, is.Equal(c.Status == opv1.ConditionTrue, c.Reason == "AsExpected"))
			return c.Reason, c.Message
		}
	}
	return "", ""
}

// series returns the values of a metric by its label besides the driver.
func (f *quotaFixture) series(t *testing.T, name string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	families, err := f.registry.Gather()
	assert.NilError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				labels := m.GetLabel()
				assert.Check(t, len(labels) == 2 && labels[0].GetValue() == f.Driver, "%v", labels)
				all[labels[1].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return all
}

// A use that goes up and down around a threshold does not change the condition.
func TestQuotaConditionHasHysteresis(t *testing.T) {
	t.Parallel()
	f := newQuotaFixture(t)
	for _, step := range []struct {
		used int
		want string
	}{
		{0, "AsExpected"},
		{899, "AsExpected"},
		{900, "NearlyFull"},
		{850, "NearlyFull"},
		{979, "NearlyFull"},
		{849, "AsExpected"},
		{899, "AsExpected"},
		{980, "Full"},
		{950, "Full"},
		{1200, "Full"},
		{949, "NearlyFull"},
		{979, "NearlyFull"},
		{1000, "Full"},
		{10, "AsExpected"},
	} {
		f.uses(t, step.used)
		reason, _ := f.quota(t)
		assert.Check(t, is.Equal(reason, step.want), "%d", step.used)
	}
}

func TestQuotaConditionIsWrittenOnlyIfItsReasonChanges(t *testing.T) {
	t.Parallel()
	f := newQuotaFixture(t)
	f.uses(t, 910)
	_, message := f.quota(t)
	assert.Check(t, is.Equal(message, "Quotas of Manila in the OpenStack project, which others may "+
		"use, too, are nearly full: gigabytes (limit 1000). kubectl openstack-csi volumes -A --clouds "+
		"clouds.yaml says who fills them. Delete what nobody needs, or ask the cloud's administrator to "+
		"raise the quotas"))
	for used := 911; used < 970; used += 10 {
		f.uses(t, used)
		_, same := f.quota(t)
		assert.Check(t, is.Equal(same, message))
	}
	assert.Check(t, is.DeepEqual(map[string]float64{"gigabytes": 961},
		f.series(t, "openstack_csi_quota_used")))
}

func TestQuotaConditionOutlivesTheOperator(t *testing.T) {
	t.Parallel()
	first := newQuotaFixture(t)
	first.uses(t, 900)
	_, message := first.quota(t)
	f := newQuotaFixture(t, newCondition("ManilaQuota", opv1.ConditionFalse, "NearlyFull", message))
	f.uses(t, 860)
	reason, same := f.quota(t)
	assert.Check(t, reason == "NearlyFull" && same == message, "%s: %s", reason, same)
}

// Healthy clouds: no limit, limits of 0, full quotas of types that the cluster does not use, use by
// others, and one large claim.
func TestQuotasOfHealthyCloudsAreAsExpected(t *testing.T) {
	t.Parallel()
	for name, found := range map[string][]openstack.Quota{
		"no limit":      nil,
		"zero":          {{Resource: "snapshots"}, {Resource: "gigabytes", Limit: 100}},
		"zero, used":    {{Resource: "snapshots", Used: 3}},
		"types":         {{Resource: "gigabytes_acme", Limit: 10, Used: 10}},
		"per volume":    {{Resource: "per_volume_gigabytes", Limit: 10}},
		"backups":       {{Resource: "backups", Limit: 10, Used: 10}},
		"others' use":   {{Resource: "gigabytes", Limit: 1000, Used: 890}},
		"a large claim": {{Resource: "gigabytes", Limit: 2000, Used: 1024}},
	} {
		f := newQuotaFixture(t)
		f.found = found
		f.later(t, 0)
		reason, message := f.quota(t)
		assert.Check(t, reason == "AsExpected" &&
			message == "No quota of Manila in the OpenStack project is nearly full", "%s: %s", name, message)
		for resource := range f.series(t, "openstack_csi_quota_limit") {
			assert.Check(t, !strings.Contains(resource, "acme"), "a name of a type")
		}
	}
}

func TestQuotasAreReadEveryTenMinutes(t *testing.T) {
	t.Parallel()
	f := newQuotaFixture(t)
	for range 30 { // a poll each minute
		f.later(t, interval)
	}
	assert.Check(t, is.Equal(f.asked, 3))
}

// Without a successful probe the token may be old.
func TestQuotasAreNotReadAfterAFailedProbe(t *testing.T) {
	t.Parallel()
	for _, o := range []outcome{refused(), noResponse(), unavailable()} {
		f := newQuotaFixture(t)
		f.finds(o)
		f.uses(t, 999)
		reason, _ := f.quota(t)
		assert.Check(t, f.asked == 0 && reason == "")
	}
}

func TestFailedRequestForQuotasChangesNoOtherCondition(t *testing.T) {
	t.Parallel()
	refusal := &openstack.Error{Reason: openstack.Forbidden, Message: "403"}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"an outage": {errors.New("timeout"), "Full"}, "a refusal": {refusal, ""},
	} {
		f := newQuotaFixture(t)
		f.uses(t, 990)
		before := len(f.eventReasons())
		f.err = test.err
		f.later(t, quotaInterval)
		reason, _ := f.quota(t)
		assert.Check(t, is.Equal(reason, test.want), name)
		assert.Check(t, is.Equal(len(f.series(t, "openstack_csi_quota_used")), len(test.want)/4), name)
		assert.Check(t, is.DeepEqual(reachable(), f.client.SortedConditions(t)[0]))
		assert.Check(t, is.Len(f.eventReasons(), before), name)
		f.err = nil
		f.uses(t, 10)
		reason, _ = f.quota(t)
		assert.Check(t, is.Equal(reason, "AsExpected"), name)
	}
}

func TestQuotaConditionIsWrittenAfterTheAPIServerRefusedIt(t *testing.T) {
	t.Parallel()
	f := newQuotaFixture(t)
	f.later(t, 0)
	f.found = []openstack.Quota{{Resource: "shares", Limit: 10, Used: 10}, {
		Resource: "gigabytes", Limit: 10, Used: 9,
	}}
	f.clock.Step(quotaInterval)
	f.client.RefuseWrites(1)
	assert.Check(t, f.sync(t.Context()) != nil)
	assert.NilError(t, f.sync(t.Context()))
	reason, message := f.quota(t)
	assert.Check(t, reason == "Full" && strings.HasPrefix(message, "Quotas of Manila in the "+
		"OpenStack project, which others may use, too, are nearly full: gigabytes (limit 10); full: "+
		"shares (limit 10). "), message)
	assert.Check(t, is.Equal(f.asked, 2))
}
