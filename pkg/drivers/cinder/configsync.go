package cinder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/zones"
)

// Names of the controller and of its condition.
const (
	configSyncName    = "OpenStackCinderConfigSync"
	configSyncManager = configSyncName + "-Status"
	progressingType   = configSyncName + "Progressing"

	reasonAsExpected = "AsExpected"
	reasonWaiting    = "WaitingForOpenStack"
	reasonError      = "SyncError"

	topologyChanged = "CinderTopologyChanged"
)

// configSync reconciles the ConfigMap and the Secret that the CSI driver reads. The ConfigMap stays
// as it is while the administrator's text is wrong or OpenStack is unreachable.
type configSync struct {
	factory.Controller
	cluster     *cluster.Cluster
	sources     *sources
	zones       *zones.Tracker
	types       *volumeTypes
	credentials credential.Credentials
	login       cluster.Object[corev1.Secret]
	// secret is the name of the driver Secret.
	secret string
	clock  clock.PassiveClock
	grace  time.Duration
	// wanted is what cloud-conf must contain, nil until its sources are determined.
	wanted atomic.Pointer[map[string]string]
}

func newConfigSync(
	s plugin.Dependencies, sources *sources, tracker *zones.Tracker, types *volumeTypes,
	credentials credential.Credentials,
) *configSync {
	c := &configSync{
		cluster: s.Cluster, sources: sources, zones: tracker, types: types, credentials: credentials,
		secret: s.SecretName(credentialsSecret),
		login:  s.Cluster.Secret(flavour.ControlPlane, s.Cluster.Namespaces.ControlPlane, loginSecret),
		clock:  s.Clock, grace: s.Settings.CloudGracePeriod,
	}
	f := factory.New().
		WithInformers(s.Cluster.Operator.Informer(), sources.choices, credentials.Informer(),
			c.login.Informer, &tracker.Changed, &types.changed).
		WithInformers(sources.informers...).
		WithSync(s.Cluster.Configuring(c.sync)).
		WithSyncDegradedOnError(s.Cluster.Operator).
		ResyncEvery(s.Settings.PollInterval)
	for _, side := range c.sides() {
		f.WithInformers(c.cloudConf(side).Informer)
	}
	c.Controller = f.ToController(configSyncName, s.Events)
	return c
}

// cloudConf returns the ConfigMap that the controller writes to a side.
func (c *configSync) cloudConf(side flavour.Side) cluster.Object[corev1.ConfigMap] {
	return c.cluster.ConfigMap(side, c.cluster.Namespaces.On(side), configMap)
}

// sides returns the sides that need cloud-conf. Standalone both sides are one cluster.
func (c *configSync) sides() []flavour.Side {
	if c.cluster.Side(flavour.ControlPlane) == c.cluster.Side(flavour.Guest) {
		return []flavour.Side{flavour.Guest}
	}
	return flavour.Sides()
}

// written reports whether the driver's pods find their configuration. That of an earlier operator
// does not count: pods that start with it would be replaced when this operator writes its own.
func (c *configSync) written() bool {
	wanted := c.wanted.Load()
	missing := func(side flavour.Side) bool { return !contains(c.cloudConf(side).Get(), *wanted) }
	return wanted != nil && c.loginWritten() && !slices.ContainsFunc(c.sides(), missing)
}

func (c *configSync) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	user, err := c.sources.user()
	if err != nil {
		return err
	}
	topology, err := c.topology(user)
	err = c.write(ctx, syncCtx, user, topology, err)
	if malformed := c.credentials.Malformed(); malformed != nil {
		err = errors.Join(err, fmt.Errorf("%w; the driver keeps its present configuration", malformed))
	}
	if !c.cluster.Flavour.ReportsCompletion() { // otherwise the condition CloudReachable is enough
		err = errors.Join(err, topology.overdue)
	}
	err = errors.Join(err, c.report(ctx, user, topology, err))
	if err == nil && !c.written() {
		err = cluster.ErrUnfinished
	}
	return err
}

// topology is whether volumes follow pods into availability zones.
type topology struct {
	// enabled is nil while no source determines it. cause names the source.
	enabled *bool
	cause   string
	// waits is why the zones are missing or may be old, nil if they are current or not needed. overdue
	// is the error if this has lasted longer than the grace period.
	waits, overdue error
}

// topology returns the topology with its source, and the error of the administrator's choice.
func (c *configSync) topology(user userConfig) (topology, error) {
	chosen, err := user.override()
	found := c.zones.Current()
	t := topology{cause: user.topology.Source}
	if err == nil {
		t.enabled = cmp.Or(chosen, found.Topology, c.sources.deployedTopology())
	}
	accepted, refused := c.credentials.Accepted()
	missing := "OpenStack has not accepted the credentials for more than "
	if chosen == nil && err == nil {
		t.cause = cmp.Or(found.Cause, "the last answer of OpenStack")
		missing = "OpenStack has not listed its availability zones for more than "
		if found.Err != nil {
			t.waits = fmt.Errorf("%w. To continue without the availability zones, set %s to %s or %s",
				found.Err, user.topology.Source, user.on, user.off)
		} else if !found.Probed {
			t.waits = cloudprobe.ErrPending
		}
	} else if accepted == nil {
		t.waits = refused
	}
	if t.waits != nil && found.Err != nil && c.clock.Since(found.FailingSince) > c.grace {
		t.overdue = fmt.Errorf("%s%v: %w", missing, c.grace, t.waits)
	}
	if accepted == nil && c.sources.deployed.Get() == nil {
		t.enabled, t.waits = nil, refused
	}
	return t, err
}

// report writes two conditions: whether the driver waits for a first response of OpenStack, and
// whether configuration has no effect or contradicts other configuration. A failed sync does not
// count as waiting; the Degraded condition reports it.
func (c *configSync) report(ctx context.Context, user userConfig, t topology, failed error) error {
	progressing := cluster.NewCondition(progressingType, opv1.ConditionFalse, reasonAsExpected,
		"The configuration of the driver is written")
	remarks := slices.Concat(c.credentials.Remarks(), user.ignored, c.types.ignored(),
		c.types.Defaults())
	listed := c.zones.Current().Zones
	if wanted := c.wanted.Load(); wanted != nil {
		remarks = append(remarks, c.sources.contradictions(user, *wanted, listed)...)
	}
	switch {
	case failed != nil:
		progressing.WithReason(reasonError).WithMessage("The configuration of the driver is not up to " +
			"date: see " + configSyncName + "Degraded")
	case t.enabled == nil:
		progressing.WithStatus(opv1.ConditionTrue).WithReason(reasonWaiting).
			WithMessage(t.waits.Error())
	case !*t.enabled && t.cause != user.topology.Source && listed.Fault() != "":
		progressing.WithMessage(*progressing.Message + ". Topology is off: " + listed.Fault())
	}
	return cluster.ApplyConditions(ctx, c.cluster.Operator, configSyncManager, progressing,
		c.sources.choices.Condition(service, remarks))
}
