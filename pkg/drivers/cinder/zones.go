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

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

const (
	zoneWatcherName = "CinderZoneWatcher"
	// reachableType is a condition.
	reachableType = "CinderCloudReachable"
	// zonesInterval is how long an answer counts. Zones change rarely; two requests are spent on a look.
	zonesInterval = 10 * time.Minute
	// answerDeadline bounds one look at the cloud. Busy clouds have needed more than 30 s for a login alone.
	answerDeadline = 2 * time.Minute
	// changedKey is the queue key of events that ask for a look at once.
	changedKey = "changed"
)

// zoneLister asks the cloud.
type zoneLister interface {
	ComputeZones(context.Context) ([]openstack.Zone, error)
	VolumeZones(context.Context) ([]openstack.Zone, error)
	// Changed tells whether the access to the cloud is other than at the last question.
	Changed() bool
}

// zoneAnswer is what the looks at the cloud have brought.
type zoneAnswer struct {
	// asked is false until the first look has ended.
	asked bool
	// known says that any look has succeeded; topology is what the last of these means.
	known, topology bool
	// err is why the last look failed, and failingSince is when the first of the failures in a row was.
	err          error
	failingSince time.Time
}

// zoneWatcher looks at the availability zones: at once, when credentials or configuration change, when a look failed, and in
// any case every zonesInterval. A condition says whether it could.
type zoneWatcher struct {
	factory.Controller
	operator v1helpers.OperatorClient
	cloud    zoneLister
	clock    clock.PassiveClock
	// maxAge is how old an answer may be at a poll: at the next it would be older than zonesInterval.
	maxAge time.Duration
	// heard is called when the answer is another than before.
	heard func()

	lookedAt time.Time // belongs to sync

	mu     sync.Mutex
	answer zoneAnswer
}

func newZoneWatcher(s plugin.Surroundings, sources *sources, cloud zoneLister) *zoneWatcher {
	w := &zoneWatcher{
		operator: s.Cluster.Operator,
		cloud:    cloud,
		clock:    clock.RealClock{},
		maxAge:   zonesInterval - s.Settings.PollInterval,
	}
	w.Controller = factory.New().
		WithBareInformers(s.Cluster.Operator.Informer()).
		WithInformers(s.CloudInformers...). // without the key: it is a change only if the client says so
		WithInformersQueueKeyFunc(changed, sources.credentials.Informer(), sources.own.Informer()).
		WithFilteredEventsInformersQueueKeyFunc(changed, sources.isInstalledWith, sources.installed.Informer()).
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
	if err != nil || spec.ManagementState != opv1.Managed {
		return err
	}
	if syncCtx.QueueKey() == changedKey || w.due() {
		w.lookedAt = w.clock.Now()
		bounded, cancel := context.WithTimeout(ctx, answerDeadline)
		defer cancel()
		topology, err := w.look(bounded)
		w.take(topology, err, status.Conditions)
	}
	// A cloud that fails is no error of this controller: it is asked again at the next interval, not at once.
	return w.tell(ctx)
}

func (w *zoneWatcher) due() bool {
	answer := w.current()
	return !answer.asked || answer.err != nil || w.cloud.Changed() || w.clock.Since(w.lookedAt) >= w.maxAge
}

func (w *zoneWatcher) look(ctx context.Context) (bool, error) {
	compute, err := w.cloud.ComputeZones(ctx)
	if err != nil {
		return false, err
	}
	volume, err := w.cloud.VolumeZones(ctx)
	if err != nil {
		return false, err
	}
	return Topology(compute, volume), nil
}

// take makes what a look brought the answer. conditions are those before it.
func (w *zoneWatcher) take(topology bool, failure error, conditions []opv1.OperatorCondition) {
	w.mu.Lock()
	before := w.answer
	after := zoneAnswer{asked: true, known: true, topology: topology}
	if failure != nil {
		after = zoneAnswer{asked: true, known: before.known, topology: before.topology, err: failure, failingSince: before.failingSince}
		if before.err == nil {
			after.failingSince = w.failingSince(before.asked, conditions)
		}
	}
	w.answer = after
	w.mu.Unlock()
	if !sameAnswer(before, after) {
		w.heard()
	}
}

// failingSince is when the cloud began to fail: now, or during an earlier run of the operator, which the condition outlives.
func (w *zoneWatcher) failingSince(asked bool, conditions []opv1.OperatorCondition) time.Time {
	reachable := v1helpers.FindOperatorCondition(conditions, reachableType)
	if asked || reachable == nil || reachable.Status != opv1.ConditionFalse {
		return w.clock.Now()
	}
	return reachable.LastTransitionTime.Time
}

func sameAnswer(a, b zoneAnswer) bool {
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return a.asked == b.asked && a.known == b.known && a.topology == b.topology && text(a.err) == text(b.err)
}

// tell writes the condition, after the first look: until then it stays as an earlier run of the operator left it.
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
