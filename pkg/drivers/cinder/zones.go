package cinder

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

const (
	zoneWatcherName = "CinderZoneWatcher"
	// reachableType is a condition.
	reachableType = "CinderCloudReachable"
	// zonesInterval is how long an answer counts. Zones change rarely; two requests are spent on a probe.
	zonesInterval = 10 * time.Minute
	// answerDeadline bounds one probe of the cloud. Busy clouds have needed more than 30 s for a login alone.
	answerDeadline = 2 * time.Minute
	// settleProbes is how many probes in a row must contradict the answer before it changes: a change restarts every pod of the driver.
	settleProbes = 3
	// changedKey is the queue key of events that ask for a probe at once.
	changedKey = "changed"
)

// zoneLister asks the cloud.
type zoneLister interface {
	ComputeZones(context.Context) ([]openstack.Zone, error)
	VolumeZones(context.Context) ([]openstack.Zone, error)
	// Changed tells whether the access to the cloud is other than at the last question.
	Changed() bool
}

// zoneAnswer is what the probes of the cloud have brought.
type zoneAnswer struct {
	// asked is false until the first probe has ended.
	asked bool
	// known says that any probe has succeeded; topology is the answer that the driver is to have, and cause the zones behind it.
	known, topology bool
	cause           string
	// err is why the last probe failed, and failingSince is when the first of the failures in a row was.
	err          error
	failingSince time.Time
	// rememberedSince is when the cloud began to fail in the view of an earlier run of the operator, until that counts.
	rememberedSince time.Time

	// zones are those of the last probe that certainly meant the answer, or that brought it. They are unknown at the start of a process.
	zones zoneLists
	// dissent counts the probes in a row that contradict the answer, the last of them at dissentAt.
	dissent   int
	dissentAt time.Time
}

// zoneWatcher probes the availability zones: at once, when credentials or configuration change, when a probe failed or
// contradicts the answer, and in any case every zonesInterval. A condition says whether it could.
type zoneWatcher struct {
	factory.Controller
	operator v1helpers.OperatorClient
	cloud    zoneLister
	clock    clock.PassiveClock
	// maxAge is how old an answer may be at a poll: at the next it would be older than zonesInterval.
	maxAge time.Duration
	// apart is how far two probes must be apart to count as two. It is less than the poll interval, because polls jitter.
	apart time.Duration
	// heard is called when the answer is another than before.
	heard func()
	// deployed returns the answer that a deployed driver has.
	deployed func() (topology, known bool)

	probedAt time.Time // belongs to sync

	mu     sync.Mutex
	answer zoneAnswer
}

func newZoneWatcher(s plugin.Dependencies, sources *sources, cloud zoneLister) *zoneWatcher {
	w := &zoneWatcher{
		operator: s.Cluster.Operator,
		cloud:    cloud,
		clock:    clock.RealClock{},
		maxAge:   zonesInterval - s.Settings.PollInterval,
		apart:    s.Settings.PollInterval / 2,
	}
	w.Controller = factory.New().
		WithBareInformers(s.Cluster.Operator.Informer()).
		WithInformers(s.CloudInformers...). // without the key: it is a change only if the client says so
		WithInformersQueueKeyFunc(changed, sources.credentials.Informer(), sources.own.Informer()).
		WithFilteredEventsInformersQueueKeyFunc(changed, sources.isCloudConfig, sources.installed.Informer()).
		WithSync(w.sync).
		ResyncEvery(s.Settings.PollInterval).
		ToController(zoneWatcherName, s.Events)
	return w
}

func changed(runtime.Object) string { return changedKey }

// current returns the last answer.
func (w *zoneWatcher) current() zoneAnswer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answer
}

func (w *zoneWatcher) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	spec, status, _, err := w.operator.GetOperatorState()
	if err != nil || !guest.Managed(spec) {
		return err
	}
	if syncCtx.QueueKey() == changedKey || w.due() {
		w.probedAt = w.clock.Now()
		bounded, cancel := context.WithTimeout(ctx, answerDeadline)
		defer cancel()
		zones, err := w.probe(bounded)
		w.take(zones, err, status.Conditions)
	}
	// A cloud that fails is no error of this controller: it is asked again at the next interval, not at once.
	return w.tell(ctx)
}

func (w *zoneWatcher) due() bool {
	answer := w.current()
	return !answer.asked || answer.err != nil || answer.dissent > 0 || w.cloud.Changed() || w.clock.Since(w.probedAt) >= w.maxAge
}

func (w *zoneWatcher) probe(ctx context.Context) (zoneLists, error) {
	compute, err := w.cloud.ComputeZones(ctx)
	if err != nil {
		return zoneLists{}, err
	}
	volume, err := w.cloud.VolumeZones(ctx)
	if err != nil {
		return zoneLists{}, err
	}
	return newZoneLists(compute, volume)
}

// take makes what a probe brought the answer. conditions are those before it.
func (w *zoneWatcher) take(zones zoneLists, failure error, conditions []opv1.OperatorCondition) {
	before := w.current()
	after := before
	if !before.known {
		after.topology, after.known = w.deployed()
	}
	if failure == nil {
		after, failure = w.weigh(after, zones)
	}
	after = w.judge(after, failure, conditions)
	after.asked = true
	w.mu.Lock()
	w.answer = after
	w.mu.Unlock()
	if !sameAnswer(before, after) {
		w.heard()
	}
}

// weigh returns the answer after a probe. An answer that is known changes only if settleProbes in a row contradict it with zones that
// exist or do not exist; a zone in maintenance contradicts nothing.
func (w *zoneWatcher) weigh(a zoneAnswer, zones zoneLists) (zoneAnswer, error) {
	if !a.known {
		topology, err := zones.first()
		if err != nil {
			return a, err
		}
		a.known, a.topology, a.zones = true, topology, zones
		a.cause = zones.since(zoneLists{})
		return a, nil
	}
	topology, certain := zones.certain()
	switch {
	case !certain:
		a.dissent = 0
		return a, nil
	case topology == a.topology:
		a.zones, a.dissent = zones, 0
		return a, nil
	case a.dissent == 0 || w.clock.Since(a.dissentAt) >= w.apart:
		a.dissent, a.dissentAt = a.dissent+1, w.clock.Now()
	}
	if a.dissent == settleProbes {
		a.cause = zones.since(a.zones)
		a.topology, a.zones, a.dissent = topology, zones, 0
	}
	return a, nil
}

// judge records whether a probe failed, and since when probes fail. The condition that an earlier run of the operator left says when an
// outage began. That counts only once two probes of this run have failed: while the operator was down, nobody asked the cloud.
func (w *zoneWatcher) judge(a zoneAnswer, failure error, conditions []opv1.OperatorCondition) zoneAnswer {
	now, began := w.clock.Now(), a.err == nil
	a.err = failure
	switch {
	case failure == nil:
		a.failingSince, a.rememberedSince = time.Time{}, time.Time{}
		return a
	case began:
		a.failingSince = now
		if reachable := v1helpers.FindOperatorCondition(conditions, reachableType); !a.asked && reachable != nil && reachable.Status == opv1.ConditionFalse {
			a.rememberedSince = reachable.LastTransitionTime.Time
		}
	case !a.rememberedSince.IsZero() && now.Sub(a.failingSince) >= w.apart:
		a.failingSince, a.rememberedSince = a.rememberedSince, time.Time{}
	}
	a.dissent = 0
	return a
}

func sameAnswer(a, b zoneAnswer) bool {
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return a.asked == b.asked && a.known == b.known && a.topology == b.topology && text(a.err) == text(b.err) && a.failingSince.Equal(b.failingSince)
}

// tell writes the condition, after the first probe: until then it stays as an earlier run of the operator left it.
func (w *zoneWatcher) tell(ctx context.Context) error {
	answer := w.current()
	reachable := applyopv1.OperatorCondition().WithType(reachableType).
		WithStatus(opv1.ConditionTrue).WithReason(reasonAsExpected).WithMessage("OpenStack answers")
	if answer.err != nil {
		reachable.WithStatus(opv1.ConditionFalse).
			WithReason(string(openstack.ReasonOf(answer.err))).WithMessage(answer.err.Error())
	}
	return w.operator.ApplyOperatorStatus(ctx, zoneWatcherName, applyopv1.OperatorStatus().WithConditions(reachable))
}
