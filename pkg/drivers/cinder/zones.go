package cinder

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

const (
	// service starts the names of conditions and events about OpenStack and about credentials.
	service = "Cinder"
	// fieldManager owns the condition reachableType.
	fieldManager  = "CinderZoneWatcher"
	reachableType = service + "CloudReachable"
	// zonesInterval is how old the compute zones may get. They change rarely. Each probe lists the
	// volume zones, which shows whether OpenStack answers.
	zonesInterval = 10 * time.Minute
	// settleProbes is how many consecutive probes must contradict the decision before it changes: a
	// change restarts every pod of the driver.
	settleProbes = 3
)

// zoneLister is the part of openstack.Client that the cloud probe uses.
type zoneLister interface {
	ComputeZones(context.Context) ([]openstack.Zone, error)
	VolumeZones(context.Context) ([]openstack.Zone, error)
}

// zoneStatus is what the probes so far have found.
type zoneStatus struct {
	// probed is false until the first probe has ended.
	probed bool
	// topology is the decision, nil if it is unknown. cause are the zones behind it.
	topology *bool
	cause    string
	// err is why the last probe failed; failingSince is the time of the first consecutive failure.
	err          error
	failingSince time.Time
	// rememberedSince is the time of the first failure that an earlier run of the operator saw. It
	// becomes failingSince after a second failure.
	rememberedSince time.Time

	// zones are the zones of the last probe that made the decision or certainly confirmed it. They are
	// unknown after a start.
	zones zoneLists
	// contradictions counts the consecutive probes that contradict the decision.
	contradictions int
	contradictedAt time.Time
}

// zoneTracker decides from the availability zones whether topology is enabled, and records since
// when the probes fail. Its method probe is the request of the cloud probe.
type zoneTracker struct {
	operator v1helpers.OperatorClient
	sources  *sources
	// connect returns the lister with the accepted login.
	connect func(context.Context) (zoneLister, error)
	clock   clock.PassiveClock
	// apart is the minimum time between two probes that count as two. It is less than the poll
	// interval, because polls jitter.
	apart time.Duration
	// changed is notified when the status changes.
	changed cluster.Signal

	// compute contains the compute zones of the last list, nil if it failed; listedAt is its time, and
	// listedBy the lister. Only the probe accesses them.
	compute  []openstack.Zone
	listedAt time.Time
	listedBy zoneLister

	mu     sync.Mutex
	status zoneStatus
}

func newZoneTracker(
	d plugin.Dependencies, sources *sources, credentials *credential.Watcher,
) *zoneTracker {
	return &zoneTracker{
		operator: d.Cluster.Operator, sources: sources, clock: d.Clock,
		apart:   d.Settings.PollInterval / 2,
		connect: func(ctx context.Context) (zoneLister, error) { return credentials.Client(ctx) },
	}
}

// newProbe returns the cloud probe, which lists the zones for the tracker, and volume types.
// An accepted login and changed choices cause a probe at once.
func newProbe(
	d plugin.Dependencies, zones *zoneTracker, types *volumeTypes, credentials credential.Credentials,
) *cloudprobe.Probe {
	o := d.ProbeOptions(service, fieldManager, credentials)
	o.OnTrigger = func() { zones.compute = nil }
	o.Triggers = zones.sources.choices.Informers()
	o.Reads = append(zones.sources.informers, zones.sources.deployed.Informer)
	return cloudprobe.New(o, types.after(zones.probe))
}

func (t *zoneTracker) current() zoneStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// probe is the request of the cloud probe. Zones that allow no first decision are an error.
func (t *zoneTracker) probe(ctx context.Context) (zoneLists, cloudprobe.Availability, error) {
	before := t.current()
	after := before
	after.topology = topologyFrom(nil, before.topology, t.sources.deployedTopology())
	zones, err := t.list(ctx)
	if err == nil {
		after, err = t.decide(after, zones)
	}
	after = t.recordOutage(after, err)
	after.probed = true
	t.mu.Lock()
	t.status = after
	t.mu.Unlock()
	if !sameStatus(before, after) {
		t.changed.Notify()
	}
	return zones, cloudprobe.Availability{Available: err == nil}, err
}

// list lists the volume zones first, so that an outage of both services has one message. It
// lists the compute zones if those of the last list are old, after a failure or a change of the
// access to OpenStack, and while the zones contradict the decision.
func (t *zoneTracker) list(ctx context.Context) (zoneLists, error) {
	cloud, err := t.connect(ctx)
	if err != nil {
		return zoneLists{}, err
	}
	s, age := t.current(), t.clock.Since(t.listedAt)
	if cloud != t.listedBy || age >= zonesInterval-t.apart || s.err != nil || s.contradictions > 0 {
		t.compute = nil
	}
	volume, err := cloud.VolumeZones(ctx)
	if err != nil {
		return zoneLists{}, err
	}
	if t.compute == nil {
		t.listedAt, t.listedBy = t.clock.Now(), cloud
		if t.compute, err = cloud.ComputeZones(ctx); err != nil {
			return zoneLists{}, err
		}
	}
	return newZoneLists(t.compute, volume)
}

// decide returns the status after a successful probe. A decision changes only if settleProbes
// consecutive probes contradict it with zones that exist or do not exist; a zone in maintenance
// contradicts nothing.
func (t *zoneTracker) decide(s zoneStatus, zones zoneLists) (zoneStatus, error) {
	topology, certain := zones.certain()
	switch {
	case s.topology == nil:
		first, err := zones.first()
		if err != nil {
			return s, err
		}
		s.topology, s.zones, s.cause = &first, zones, zones.since(zoneLists{})
	case !certain:
		s.contradictions = 0
	case topology == *s.topology:
		s.zones, s.contradictions = zones, 0
	case s.contradictions == 0 || t.clock.Since(s.contradictedAt) >= t.apart:
		s.contradictions, s.contradictedAt = s.contradictions+1, t.clock.Now()
		if s.contradictions == settleProbes {
			s.cause = zones.since(s.zones)
			s.topology, s.zones, s.contradictions = &topology, zones, 0
		}
	}
	return s, nil
}

// recordOutage records since when probes fail. The condition that an earlier run of the operator
// left contains the start of its outage. That time counts only after two failures in this run,
// because nothing probed OpenStack while the operator was down.
func (t *zoneTracker) recordOutage(s zoneStatus, err error) zoneStatus {
	now, begins := t.clock.Now(), s.err == nil
	s.err = err
	switch {
	case err == nil:
		s.failingSince, s.rememberedSince = time.Time{}, time.Time{}
		return s
	case begins:
		s.failingSince = now
		if !s.probed {
			s.rememberedSince = t.outageOfEarlierRun()
		}
	case !s.rememberedSince.IsZero() && now.Sub(s.failingSince) >= t.apart:
		s.failingSince, s.rememberedSince = s.rememberedSince, time.Time{}
	}
	s.contradictions = 0
	return s
}

// outageOfEarlierRun returns the transition time of the condition, or zero if it reports no outage.
func (t *zoneTracker) outageOfEarlierRun() time.Time {
	_, status, _, err := t.operator.GetOperatorState()
	if err == nil && v1helpers.IsOperatorConditionFalse(status.Conditions, reachableType) {
		return v1helpers.FindOperatorCondition(status.Conditions, reachableType).LastTransitionTime.Time
	}
	return time.Time{}
}

func sameStatus(a, b zoneStatus) bool {
	return a.probed == b.probed && ptr.Equal(a.topology, b.topology) &&
		fmt.Sprint(a.err) == fmt.Sprint(b.err) && a.failingSince.Equal(b.failingSince)
}
