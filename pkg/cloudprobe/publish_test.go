package cloudprobe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
)

// outcomeTest is a sequence of outcomes, one for each poll, and what the cluster contains then.
type outcomeTest struct {
	before     []opv1.OperatorCondition
	deployed   bool
	outcomes   []outcome
	want       []opv1.OperatorCondition
	wantStarts int
	wantEvents []string
}

func TestOutcomesBecomeConditions(t *testing.T) {
	t.Parallel()
	leftover := newCondition("ManilaControllerDisabled", opv1.ConditionFalse, "Old",
		"of an earlier release")
	tests := map[string]outcomeTest{
		"available": {
			outcomes: []outcome{available(), available()}, want: []opv1.OperatorCondition{reachable()},
			wantStarts: 1, wantEvents: []string{"ManilaFound"},
		},
		"available, Disabled of another field manager": {
			before: []opv1.OperatorCondition{
				newCondition("ADegraded", opv1.ConditionFalse, "", ""), leftover,
			},
			outcomes: []outcome{available()},
			want: []opv1.OperatorCondition{
				newCondition("ADegraded", opv1.ConditionFalse, "", ""), reachable(),
			},
			wantStarts: 1, wantEvents: []string{"ManilaFound"},
		},
		"unavailable": {
			outcomes:   []outcome{unavailable(), unavailable()},
			want:       []opv1.OperatorCondition{reachable(), disabled("NoManila", "no sharev2")},
			wantEvents: []string{"ManilaDisabled"},
		},
		"unavailable although deployed": {
			deployed: true, outcomes: []outcome{unavailable()},
			want:       []opv1.OperatorCondition{reachable(), disabled("NoManila", "no sharev2")},
			wantStarts: 1, wantEvents: []string{"ManilaDisabled"},
		},
		"unreachable before anything was deployed": {
			outcomes: []outcome{noResponse(), noResponse()}, wantEvents: []string{"ManilaCloudUnreachable"},
			want: []opv1.OperatorCondition{
				unreachable("CloudUnreachable", "no route"), disabled("CloudUnreachable", "no route"),
			},
		},
		"unreachable after the start": {
			outcomes:   []outcome{available(), noResponse()},
			want:       []opv1.OperatorCondition{unreachable("CloudUnreachable", "no route")},
			wantStarts: 1, wantEvents: []string{"ManilaFound", "ManilaCloudUnreachable"},
		},
		"unreachable after Manila became unavailable": {
			outcomes: []outcome{available(), unavailable(), refused()}, wantStarts: 1,
			wantEvents: []string{"ManilaFound", "ManilaDisabled", "ManilaCloudUnreachable"},
			want: []opv1.OperatorCondition{
				unreachable("AuthenticationFailed", "401"), disabled("NoManila", "no sharev2"),
			},
		},
		"unreachable although deployed": {
			deployed: true, outcomes: []outcome{noResponse()},
			want:       []opv1.OperatorCondition{unreachable("CloudUnreachable", "no route")},
			wantStarts: 1, wantEvents: []string{"ManilaCloudUnreachable"},
		},
		"reachable again": {
			outcomes: []outcome{noResponse(), available()}, want: []opv1.OperatorCondition{reachable()},
			wantStarts: 1, wantEvents: []string{"ManilaCloudUnreachable", "ManilaFound"},
		},
		"another failure": {
			outcomes:   []outcome{refused(), noResponse()},
			wantEvents: []string{"ManilaCloudUnreachable", "ManilaCloudUnreachable"},
			want: []opv1.OperatorCondition{
				unreachable("CloudUnreachable", "no route"), disabled("CloudUnreachable", "no route"),
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.run(t)
		})
	}
}

func (tt outcomeTest) run(t *testing.T) {
	t.Helper()
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	f := newFixture(t, c, tt.before...)
	if tt.deployed {
		f.deployed()
	}
	for _, o := range tt.outcomes {
		f.finds(o)
		assert.NilError(t, f.sync(t.Context()))
		checkTypes(t, f.client.SortedConditions(t))
		c.Step(interval)
	}
	f.wantConditions(t, tt.want...)
	assert.Check(t, is.Equal(f.starts, tt.wantStarts), "starts")
	assert.Check(t, is.DeepEqual(tt.wantEvents, f.eventReasons()), "events")
	f.wantProbes(t, len(tt.outcomes), "")
}

// checkTypes checks that CSO ignores CloudReachable, and that Disabled is never False: CSO reads
// five suffixes of types, and does not read the status of Disabled.
func checkTypes(t *testing.T, conditions []opv1.OperatorCondition) {
	t.Helper()
	for _, c := range conditions {
		for _, suffix := range []string{
			"Available", "Progressing", "Degraded", "Disabled", "Upgradeable",
		} {
			assert.Check(t, c.Type != "ManilaCloudReachable" || !strings.HasSuffix(c.Type, suffix),
				"CSO reads %s", c.Type)
		}
		assert.Check(t, c.Type != "ManilaControllerDisabled" || c.Status == opv1.ConditionTrue,
			"%s is %s", c.Type, c.Status)
	}
}

func TestSameOutcomeIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]outcome{
		"available": available(), "unavailable": unavailable(), "refused": refused(),
		"no response": noResponse(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clocktesting.NewFakeClock(time.Unix(0, 0))
			f := newFixture(t, c)
			f.finds(o)
			for range 5 {
				assert.NilError(t, f.sync(t.Context()))
				c.Step(interval)
			}
			assert.Check(t, is.Equal(f.client.Writes(), 1))
			assert.Check(t, is.Len(f.eventReasons(), 1))
		})
	}
}

func TestMetricsCountOutcomes(t *testing.T) {
	t.Parallel()
	registry := metrics.NewKubeRegistry()
	f := newFixture(t, clocktesting.NewFakeClock(time.Unix(0, 0)))
	assert.NilError(t, f.Metrics.RegisterWith(registry.Register))
	for _, o := range []outcome{
		available(), available(), unavailable(), refused(), noResponse(), available(),
	} {
		f.Metrics.observe("Manila", o)
	}
	assert.Check(t, is.DeepEqual([]string{
		"openstack_csi_cloud_checks_total result=AuthenticationFailed service=Manila 1",
		"openstack_csi_cloud_checks_total result=CloudUnreachable service=Manila 1",
		"openstack_csi_cloud_checks_total result=NoManila service=Manila 1",
		"openstack_csi_cloud_checks_total result=Open service=Manila 3",
		"openstack_csi_cloud_reachable service=Manila 1",
	}, gather(t, registry)))
	f.Metrics.observe("Manila", noResponse())
	got := gather(t, registry)
	assert.Check(t, slices.Contains(got, "openstack_csi_cloud_reachable service=Manila 0"),
		"an unreachable cloud counts as reachable: %q", got)
}

// gather returns each metric as its name, labels and value.
func gather(t *testing.T, from metrics.Gatherer) []string {
	t.Helper()
	families, err := from.Gather()
	assert.NilError(t, err)
	var ret []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			line := family.GetName()
			for _, label := range metric.GetLabel() {
				line += " " + label.GetName() + "=" + label.GetValue()
			}
			ret = append(ret,
				fmt.Sprintf("%s %v", line, metric.GetCounter().GetValue()+metric.GetGauge().GetValue()))
		}
	}
	slices.Sort(ret)
	return ret
}
