package zones

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	// Interval is how old the compute zones may get. They change rarely. Each probe lists the zones of
	// storage, which shows whether OpenStack answers.
	Interval = 10 * time.Minute
	// Settle is how many consecutive probes must contradict the decision before it changes: a change
	// restarts every pod of the driver.
	Settle = 3
)

// Cloud is the part of openstack.Client that a Tracker uses.
type Cloud interface {
	ComputeZones(context.Context) ([]openstack.Zone, error)
	VolumeZones(context.Context) ([]openstack.Zone, error)
	ShareZones(context.Context) ([]openstack.Zone, error)
}

// Status is what the probes so far have found.
type Status struct {
	// Probed is false until the first probe has ended.
	Probed bool
	// Topology is the decision, nil if it is unknown. Cause are the zones behind it.
	Topology *bool
	Cause    string
	// Err is why the last probe failed; FailingSince is the time of the first consecutive failure.
	Err          error
	FailingSince time.Time
	// Zones are the zones of the last probe that listed them.
	Zones Lists

	// decided are the zones of the last probe that made the decision or certainly confirmed it. They
	// are unknown after a start.
	decided Lists
	// rememberedSince is the time of the first failure that an earlier run of the operator saw. It
	// becomes FailingSince after a second failure.
	rememberedSince time.Time
	// contradictions counts the consecutive probes that contradict the decision.
	contradictions int
	contradictedAt time.Time
}

// Options configure a Tracker.
type Options struct {
	Operator v1helpers.OperatorClient
	// Condition is the type of the condition that reports since when probes fail.
	Condition string
	Storage   Storage
	// Deployed returns the decision that an earlier process deployed, nil if it is unknown.
	Deployed func() *bool
	// Connect returns the client with the accepted login.
	Connect func(context.Context) (Cloud, error)
	Clock   clock.PassiveClock
	// Poll is the interval of probes. Two count as two if half of it is between them: polls jitter.
	Poll time.Duration
}

// Tracker decides from the availability zones whether topology is enabled, and records since when
// the probes fail. Its method Probe is a request of the cloud probe.
type Tracker struct {
	Options
	// Changed is notified when the status changes.
	Changed cluster.Signal

	// compute contains the compute zones of the last list, nil if it failed; listedAt is its time, and
	// listedBy the client. Only the probe accesses them.
	compute  []openstack.Zone
	listedAt time.Time
	listedBy Cloud

	mu     sync.Mutex
	status Status
}

// Refresh makes the next probe list the compute zones. Only the probe may call it.
func (t *Tracker) Refresh() { t.compute = nil }

// Forget makes the next decision depend only on the deployed driver and the zones.
func (t *Tracker) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status = Status{}
}

// Current returns what the probes so far have found.
func (t *Tracker) Current() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// Probe lists the zones and decides. Zones that allow no first decision are an error.
func (t *Tracker) Probe(ctx context.Context) error {
	before := t.Current()
	after := before
	after.Topology = cmp.Or(before.Topology, t.Deployed())
	zones, err := t.list(ctx)
	if err == nil {
		after, err = t.decide(after, zones)
	}
	after = t.recordOutage(after, err)
	after.Probed = true
	t.mu.Lock()
	t.status = after
	t.mu.Unlock()
	if !sameStatus(before, after) {
		t.Changed.Notify()
	}
	return err
}

// list lists the zones of storage first, so that an outage of both services has one message. It
// lists the compute zones if those of the last list are old, after a failure or a change of the
// access to OpenStack, and while the zones contradict the decision.
func (t *Tracker) list(ctx context.Context) (Lists, error) {
	cloud, err := t.Connect(ctx)
	if err != nil {
		return Lists{}, err
	}
	s, age := t.Current(), t.Clock.Since(t.listedAt)
	if cloud != t.listedBy || age >= Interval-t.Poll/2 || s.Err != nil || s.contradictions > 0 {
		t.compute = nil
	}
	volume, err := t.Storage.Zones(cloud, ctx)
	if err != nil {
		return Lists{}, err
	}
	if t.compute == nil {
		t.listedAt, t.listedBy = t.Clock.Now(), cloud
		if t.compute, err = cloud.ComputeZones(ctx); err != nil {
			return Lists{}, err
		}
	}
	return newLists(t.compute, volume, t.Storage)
}

// decide returns the status after a successful probe. A decision changes only if Settle
// consecutive probes contradict it with zones that exist or do not exist; a zone in maintenance
// contradicts nothing.
func (t *Tracker) decide(s Status, zones Lists) (Status, error) {
	topology, certain := zones.certain()
	s.Zones = zones
	switch {
	case s.Topology == nil:
		first, err := zones.first()
		if err != nil {
			return s, err
		}
		s.Topology, s.decided, s.Cause = &first, zones, zones.since(Lists{})
	case !certain:
		s.contradictions = 0
	case topology == *s.Topology:
		s.decided, s.contradictions = zones, 0
	case s.contradictions == 0 || t.Clock.Since(s.contradictedAt) >= t.Poll/2:
		s.contradictions, s.contradictedAt = s.contradictions+1, t.Clock.Now()
		if s.contradictions == Settle {
			s.Cause = zones.since(s.decided)
			s.Topology, s.decided, s.contradictions = &topology, zones, 0
		}
	}
	return s, nil
}

// recordOutage records since when probes fail. The condition that an earlier run of the operator
// left contains the start of its outage. That time counts only after two failures in this run,
// because nothing probed OpenStack while the operator was down.
func (t *Tracker) recordOutage(s Status, err error) Status {
	now, begins := t.Clock.Now(), s.Err == nil
	s.Err = err
	switch {
	case err == nil:
		s.FailingSince, s.rememberedSince = time.Time{}, time.Time{}
		return s
	case begins:
		s.FailingSince = now
		if !s.Probed {
			s.rememberedSince = t.outageOfEarlierRun()
		}
	case !s.rememberedSince.IsZero() && now.Sub(s.FailingSince) >= t.Poll/2:
		s.FailingSince, s.rememberedSince = s.rememberedSince, time.Time{}
	}
	s.contradictions = 0
	return s
}

// outageOfEarlierRun returns the transition time of the condition, or zero if it reports no outage.
func (t *Tracker) outageOfEarlierRun() time.Time {
	_, status, _, err := t.Operator.GetOperatorState()
	if err == nil && v1helpers.IsOperatorConditionFalse(status.Conditions, t.Condition) {
		return v1helpers.FindOperatorCondition(status.Conditions, t.Condition).LastTransitionTime.Time
	}
	return time.Time{}
}

func sameStatus(a, b Status) bool {
	return a.Probed == b.Probed && ptr.Equal(a.Topology, b.Topology) &&
		fmt.Sprint(a.Err) == fmt.Sprint(b.Err) && a.FailingSince.Equal(b.FailingSince)
}
