package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

const interval = time.Minute

// fakeGate answers what it is told to.
type fakeGate struct {
	check func(context.Context) (plugin.Verdict, error)
	asked atomic.Int32
}

func (g *fakeGate) Name() string { return "Manila" }

func (g *fakeGate) Check(ctx context.Context) (plugin.Verdict, error) {
	g.asked.Add(1)
	return g.check(ctx)
}

func (g *fakeGate) answers(a answer) {
	g.check = func(context.Context) (plugin.Verdict, error) { return a.verdict, a.err }
}

// watched is a gatekeeper with what it sees and does.
type watched struct {
	*gatekeeper
	gate   *fakeGate
	client *fakeClient
	events events.InMemoryRecorder
	starts int
}

func watch(c clock.Clock, before ...opv1.OperatorCondition) *watched {
	w := &watched{gate: &fakeGate{}, client: newFakeClient(before...), events: events.NewInMemoryRecorder("test", c)}
	w.gatekeeper = &gatekeeper{
		gate: w.gate, client: w.client, events: w.events, metrics: newCloudMetrics(), clock: c, interval: interval,
		deployed: func(context.Context) (bool, error) { return false, nil },
		start:    func() { w.starts++ },
	}
	return w
}

func (w *watched) found() *watched {
	w.deployed = func(context.Context) (bool, error) { return true, nil }
	return w
}

func (w *watched) eventReasons() []string {
	var reasons []string
	for _, event := range w.events.Events() {
		reasons = append(reasons, event.Reason)
	}
	return reasons
}

func condition(name string, status opv1.ConditionStatus, reason, message string) opv1.OperatorCondition {
	return opv1.OperatorCondition{Type: name, Status: status, Reason: reason, Message: message}
}

func reachable() opv1.OperatorCondition {
	return condition("ManilaCloudReachable", opv1.ConditionTrue, "AsExpected", "OpenStack answers")
}

func unreachable(reason, message string) opv1.OperatorCondition {
	return condition("ManilaCloudReachable", opv1.ConditionFalse, reason, message)
}

func disabled(reason, message string) opv1.OperatorCondition {
	return condition("ManilaControllerDisabled", opv1.ConditionTrue, reason, message)
}

// The answers of the tests: the cloud offers what is needed, does not, refuses the credentials, cannot be reached.
func open() answer { return answer{verdict: plugin.Verdict{Open: true}} }

func closed() answer {
	return answer{verdict: plugin.Verdict{Reason: "NoManila", Message: "no sharev2"}}
}

func refused() answer {
	return answer{err: &plugin.UnknownError{Reason: "AuthenticationFailed", Message: "401"}}
}

func noAnswer() answer { return answer{err: errors.New("no route")} }

func TestAnswersBecomeConditions(t *testing.T) {
	t.Parallel()
	leftover := condition("ManilaControllerDisabled", opv1.ConditionFalse, "Old", "of an earlier release")
	tests := map[string]struct {
		before     []opv1.OperatorCondition
		deployed   bool
		answers    []answer
		want       []opv1.OperatorCondition
		wantStarts int
		wantEvents []string
	}{
		"open": {answers: []answer{open(), open()}, want: []opv1.OperatorCondition{reachable()}, wantStarts: 1, wantEvents: []string{"ManilaFound"}},
		"open, Disabled left by another writer": {
			before: []opv1.OperatorCondition{condition("ADegraded", opv1.ConditionFalse, "", ""), leftover}, answers: []answer{open()},
			want:       []opv1.OperatorCondition{condition("ADegraded", opv1.ConditionFalse, "", ""), reachable()},
			wantStarts: 1, wantEvents: []string{"ManilaFound"},
		},
		"closed": {
			answers: []answer{closed(), closed()}, want: []opv1.OperatorCondition{reachable(), disabled("NoManila", "no sharev2")},
			wantEvents: []string{"ManilaDisabled"},
		},
		"closed, then open": {
			answers: []answer{closed(), open()}, want: []opv1.OperatorCondition{reachable()},
			wantStarts: 1, wantEvents: []string{"ManilaDisabled", "ManilaFound"},
		},
		"closed although deployed": {
			deployed: true, answers: []answer{closed()}, want: []opv1.OperatorCondition{reachable(), disabled("NoManila", "no sharev2")},
			wantStarts: 1, wantEvents: []string{"ManilaDisabled"},
		},
		"refused before anything was deployed": {
			answers: []answer{refused()}, wantEvents: []string{"ManilaCloudUnreachable"},
			want: []opv1.OperatorCondition{unreachable("AuthenticationFailed", "401"), disabled("AuthenticationFailed", "401")},
		},
		"unreachable before anything was deployed": {
			answers: []answer{noAnswer(), noAnswer()}, wantEvents: []string{"ManilaCloudUnreachable"},
			want: []opv1.OperatorCondition{unreachable("CloudUnreachable", "no route"), disabled("CloudUnreachable", "no route")},
		},
		"unreachable after the start": {
			answers: []answer{open(), noAnswer()}, want: []opv1.OperatorCondition{unreachable("CloudUnreachable", "no route")},
			wantStarts: 1, wantEvents: []string{"ManilaFound", "ManilaCloudUnreachable"},
		},
		"unreachable after Manila went away": {
			answers: []answer{open(), closed(), refused()}, wantStarts: 1, wantEvents: []string{"ManilaFound", "ManilaDisabled", "ManilaCloudUnreachable"},
			want: []opv1.OperatorCondition{unreachable("AuthenticationFailed", "401"), disabled("NoManila", "no sharev2")},
		},
		"unreachable, found deployed": {
			deployed: true, answers: []answer{noAnswer()}, want: []opv1.OperatorCondition{unreachable("CloudUnreachable", "no route")},
			wantStarts: 1, wantEvents: []string{"ManilaCloudUnreachable"},
		},
		"back again": {
			answers: []answer{noAnswer(), open()}, want: []opv1.OperatorCondition{reachable()},
			wantStarts: 1, wantEvents: []string{"ManilaCloudUnreachable", "ManilaFound"},
		},
		"another failure": {
			answers: []answer{refused(), noAnswer()}, wantEvents: []string{"ManilaCloudUnreachable", "ManilaCloudUnreachable"},
			want: []opv1.OperatorCondition{unreachable("CloudUnreachable", "no route"), disabled("CloudUnreachable", "no route")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clocktesting.NewFakeClock(time.Unix(0, 0))
			w := watch(c, tt.before...)
			if tt.deployed {
				w.found()
			}
			for _, a := range tt.answers {
				w.gate.answers(a)
				if err := w.sync(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				checkTypes(t, w.client.posted())
				c.Step(interval)
			}
			if diff := gocmp.Diff(tt.want, w.client.posted()); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if w.starts != tt.wantStarts {
				t.Errorf("started %d times, want %d", w.starts, tt.wantStarts)
			}
			if diff := gocmp.Diff(tt.wantEvents, w.eventReasons()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if asked := int(w.gate.asked.Load()); asked != len(tt.answers) {
				t.Errorf("asked %d times, want %d", asked, len(tt.answers))
			}
		})
	}
}

// checkTypes checks what CSO makes of types: it knows five suffixes, and takes any Disabled for a yes.
func checkTypes(t *testing.T, conditions []opv1.OperatorCondition) {
	t.Helper()
	for _, c := range conditions {
		for _, suffix := range []string{"Available", "Progressing", "Degraded", "Disabled", "Upgradeable"} {
			if c.Type == "ManilaCloudReachable" && strings.HasSuffix(c.Type, suffix) {
				t.Errorf("%s means something to the storage operator", c.Type)
			}
		}
		if c.Type == "ManilaControllerDisabled" && c.Status != opv1.ConditionTrue {
			t.Errorf("%s is %s", c.Type, c.Status)
		}
	}
}

func TestSameAnswerIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]answer{"open": open(), "closed": closed(), "refused": refused(), "no answer": noAnswer()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clocktesting.NewFakeClock(time.Unix(0, 0))
			w := watch(c)
			w.gate.answers(a)
			for range 5 {
				if err := w.sync(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				c.Step(interval)
			}
			if w.client.writes() != 1 || len(w.eventReasons()) != 1 {
				t.Errorf("%d writes and %d events, want one each", w.client.writes(), len(w.eventReasons()))
			}
		})
	}
}

func TestOnlyTheTellingIsRepeated(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]opv1.OperatorCondition{"apply": nil, "removal": {disabled("Old", "old")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clocktesting.NewFakeClock(time.Unix(0, 0))
			w := watch(c, before...)
			w.gate.answers(open())
			w.client.refused = 3
			for range 3 {
				if err := w.sync(t.Context(), nil); err == nil {
					t.Fatal("no error although the API server refuses")
				}
				c.Step(time.Second)
			}
			if len(w.eventReasons()) != 0 {
				t.Errorf("events %q of conditions that were not written", w.eventReasons())
			}
			if err := w.sync(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff([]opv1.OperatorCondition{reachable()}, w.client.posted()); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if asked := w.gate.asked.Load(); asked != 1 || w.starts != 1 {
				t.Errorf("asked %d times, started %d times, want one each", asked, w.starts)
			}
		})
	}
}

func TestLookAtTheClusterComesFirst(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	w := watch(c)
	w.gate.answers(noAnswer())
	failure := errors.New("API server is down")
	w.deployed = func(context.Context) (bool, error) { return false, failure }
	for range 2 {
		if err := w.sync(t.Context(), nil); !errors.Is(err, failure) {
			t.Fatalf("got %v, want %v", err, failure)
		}
	}
	if w.gate.asked.Load() != 0 || w.client.writes() != 0 || w.starts != 0 {
		t.Errorf("asked %d, wrote %d, started %d without knowing what is deployed", w.gate.asked.Load(), w.client.writes(), w.starts)
	}
	w.found()
	if err := w.sync(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if w.starts != 1 || w.gate.asked.Load() != 1 {
		t.Errorf("started %d and asked %d times, want one each", w.starts, w.gate.asked.Load())
	}
}

func TestManagementStates(t *testing.T) {
	t.Parallel()
	for state, wantAsked := range map[opv1.ManagementState]int32{
		opv1.Managed: 1, opv1.Unmanaged: 0, opv1.Removed: 0,
		// library-go's controllers take these for Managed.
		opv1.Force: 0, "": 0,
	} {
		t.Run(cmp.Or(string(state), "none"), func(t *testing.T) {
			t.Parallel()
			w := watch(clocktesting.NewFakeClock(time.Unix(0, 0))).found()
			w.client.spec.ManagementState = state
			w.gate.answers(open())
			if err := w.sync(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if asked := w.gate.asked.Load(); asked != wantAsked || w.starts != int(wantAsked) || w.client.writes() != int(wantAsked) {
				t.Errorf("asked %d, started %d, wrote %d times, want %d each", asked, w.starts, w.client.writes(), wantAsked)
			}
		})
	}
}

func TestAwaitedAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(clock.RealClock{})
		release := make(chan struct{})
		w.gate.check = func(context.Context) (plugin.Verdict, error) {
			<-release
			return plugin.Verdict{Open: true}, nil
		}
		done := make(chan error)
		go func() { done <- w.sync(t.Context(), nil) }()
		<-time.After(firstPatience - time.Millisecond)
		if got := w.client.posted(); len(got) != 0 {
			t.Errorf("impatient: %v", got)
		}
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		want := []opv1.OperatorCondition{unreachable("CloudUnreachable", errAwaited.Error()), disabled("CloudUnreachable", errAwaited.Error())}
		if diff := gocmp.Diff(want, w.client.posted()); diff != "" {
			t.Errorf("conditions while the call hangs (-want +got):\n%s", diff)
		}
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]opv1.OperatorCondition{reachable()}, w.client.posted()); diff != "" {
			t.Errorf("conditions after the answer (-want +got):\n%s", diff)
		}
	})
}

// TestCloudThatHangs has a cloud that never answers: one look is bounded, and the second one tells nothing new.
func TestCloudThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(clock.RealClock{})
		w.gate.check = func(ctx context.Context) (plugin.Verdict, error) {
			<-ctx.Done()
			return plugin.Verdict{}, &plugin.UnknownError{Reason: "CloudUnreachable", Message: "no answer in time"}
		}
		start := time.Now()
		if err := w.sync(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != answerDeadline {
			t.Errorf("took %v, want %v", took, answerDeadline)
		}
		before := w.client.writes()
		for range 3 {
			if err := w.sync(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if now := w.client.writes(); before != 2 || now != before {
			t.Errorf("%d writes at first, %d later, want 2 and none", before, now-before)
		}
	})
}

// TestPatienceAfterAnAnswer has a cloud that answered once and then hangs.
func TestPatienceAfterAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(clock.RealClock{})
		w.gate.answers(open())
		if err := w.sync(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		<-time.After(interval)
		release := make(chan struct{})
		w.gate.check = func(context.Context) (plugin.Verdict, error) {
			<-release
			return plugin.Verdict{}, noAnswer().err
		}
		done := make(chan error)
		go func() { done <- w.sync(t.Context(), nil) }()
		<-time.After(patience - time.Millisecond)
		if diff := gocmp.Diff([]opv1.OperatorCondition{reachable()}, w.client.posted()); diff != "" {
			t.Errorf("impatient (-want +got):\n%s", diff)
		}
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		if diff := gocmp.Diff([]opv1.OperatorCondition{unreachable("CloudUnreachable", errAwaited.Error())}, w.client.posted()); diff != "" {
			t.Errorf("conditions while the call hangs (-want +got):\n%s", diff)
		}
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := metrics.NewKubeRegistry()
	w := watch(clocktesting.NewFakeClock(time.Unix(0, 0)))
	if err := w.metrics.registerWith(registry.Register); err != nil {
		t.Fatal(err)
	}
	for _, a := range []answer{open(), open(), closed(), refused(), noAnswer(), open()} {
		w.metrics.observe("Manila", a)
	}
	got := gather(t, registry)
	want := []string{
		"openstack_csi_cloud_checks_total result=AuthenticationFailed service=Manila 1",
		"openstack_csi_cloud_checks_total result=CloudUnreachable service=Manila 1",
		"openstack_csi_cloud_checks_total result=NoManila service=Manila 1",
		"openstack_csi_cloud_checks_total result=Open service=Manila 3",
		"openstack_csi_cloud_reachable service=Manila 1",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	w.metrics.observe("Manila", noAnswer())
	if got := gather(t, registry); !slices.Contains(got, "openstack_csi_cloud_reachable service=Manila 0") {
		t.Errorf("an unreachable cloud counts as reachable: %q", got)
	}
}

// gather returns each metric as its name, labels and value.
func gather(t *testing.T, from metrics.Gatherer) []string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var ret []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			line := family.GetName()
			for _, label := range metric.GetLabel() {
				line += " " + label.GetName() + "=" + label.GetValue()
			}
			ret = append(ret, fmt.Sprintf("%s %v", line, metric.GetCounter().GetValue()+metric.GetGauge().GetValue()))
		}
	}
	slices.Sort(ret)
	return ret
}
