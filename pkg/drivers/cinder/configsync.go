package cinder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// Names of the controller and of its condition.
const (
	configSyncName    = "OpenStackCinderConfigSync"
	configSyncManager = configSyncName + "-Status"
	progressingType   = configSyncName + "Progressing"
	// validType says whether the administrator's configuration is used completely. CSO ignores it.
	validType = "CinderUserConfigValid"

	reasonAsExpected = "AsExpected"
	reasonWaiting    = "WaitingForOpenStack"
	reasonError      = "SyncError"
	reasonIgnored    = "PartlyIgnored"

	topologyChanged = "CinderTopologyChanged"

	// maxLines is how many lines a condition has at most.
	maxLines = 10
)

// configSync keeps the ConfigMap that the CSI driver reads. What it cannot make anew, because the administrator's text is wrong
// or the cloud does not answer, stays as it was last.
type configSync struct {
	factory.Controller
	cluster *cluster.Cluster
	sources *sources
	zones   *zoneWatcher
	// accepted tells when credentials may be used.
	accepted hook.Acceptance
	clock    clock.PassiveClock
	grace    time.Duration
}

func newConfigSync(s plugin.Dependencies, sources *sources, zones *zoneWatcher, accepted hook.Acceptance) *configSync {
	c := &configSync{
		cluster:  s.Cluster,
		sources:  sources,
		zones:    zones,
		accepted: accepted,
		clock:    clock.RealClock{},
		grace:    s.Settings.CloudGracePeriod,
	}
	syncCtx := factory.NewSyncContext(configSyncName, s.Events)
	zones.heard = func() { syncCtx.Queue().Add(factory.DefaultQueueKey) }
	zones.deployed = c.deployed
	f := factory.New().
		WithSyncContext(syncCtx).
		WithInformers(s.Cluster.Operator.Informer(), sources.credentials.Informer(), sources.own.Informer(), accepted.Informer()).
		WithInformers(sources.informers...).
		WithFilteredEventsInformers(sources.isCloudConfig, sources.installed.Informer()).
		WithSync(c.sync).
		WithSyncDegradedOnError(s.Cluster.Operator).
		ResyncEvery(s.Settings.PollInterval)
	for _, side := range c.sides() {
		f.WithInformers(c.cloudConf(side).Informer())
	}
	c.Controller = f.ToController(configSyncName, s.Events)
	return c
}

// cloudConf has what the controller writes to a side.
func (c *configSync) cloudConf(side flavour.Side) coreinformers.ConfigMapInformer {
	return c.cluster.Side(side).ObjectInformers.For(c.cluster.Namespaces.On(side), configMap).Core().V1().ConfigMaps()
}

// sides are where cloud-conf is needed: once where both sides are one cluster.
func (c *configSync) sides() []flavour.Side {
	if c.cluster.Side(flavour.ControlPlane) == c.cluster.Side(flavour.Guest) {
		return []flavour.Side{flavour.Guest}
	}
	return flavour.Sides()
}

// written tells whether the driver's configuration is there for its pods.
func (c *configSync) written() bool {
	for _, side := range c.sides() {
		if c.existing(side) == nil {
			return false
		}
	}
	return true
}

func (c *configSync) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	if managed, err := cluster.Managed(c.cluster.Operator); err != nil || !managed {
		return err
	}
	user, err := c.sources.user()
	if err != nil {
		return err
	}
	topology, err := c.topology(user)
	if err == nil {
		err = c.write(ctx, syncCtx, user, topology)
	}
	if topology.overdue {
		err = errors.Join(err, fmt.Errorf("OpenStack has not listed its availability zones for more than %v: %w", c.grace, topology.doubt))
	}
	return errors.Join(err, c.report(ctx, user, topology, err))
}

// topology is whether volumes are to follow pods into zones.
type topology struct {
	enabled bool
	// known is false while nobody has said.
	known bool
	// cause says who decided.
	cause string
	// doubt is why the cloud's word is missing or may be old; nil where it is fresh or not asked for.
	doubt error
	// overdue says that the doubt has lasted longer than a cloud may fail.
	overdue bool
}

// topology is the administrator's word, else what the zones say, else what they said to an earlier run of the operator.
func (c *configSync) topology(user userConfig) (topology, error) {
	enabled, given, err := user.override()
	if given || err != nil {
		return topology{enabled: enabled, known: given, cause: user.topology.place}, err
	}
	answer := c.zones.current()
	t := topology{enabled: answer.topology, known: answer.known, cause: cmp.Or(answer.cause, "the last answer of OpenStack")}
	switch {
	case !answer.asked:
		t.doubt = cloudprobe.ErrPending
	case answer.err != nil:
		t.doubt = fmt.Errorf("%w. To go on without the availability zones, set %s to true or false", answer.err, user.topology.place)
		t.overdue = c.clock.Since(answer.failingSince) > c.grace
	}
	if !t.known {
		t.enabled, t.known = c.remembered()
	}
	return t, nil
}

// remembered is what an earlier run of the operator wrote to the controller side. The administrator of a hosted cluster can write
// to the other side, and must not decide for the controllers.
func (c *configSync) remembered() (enabled, known bool) {
	existing := c.existing(flavour.ControlPlane)
	if existing == nil {
		return false, false
	}
	enabled, err := strconv.ParseBool(existing.Data[topologyKey])
	return enabled, err == nil
}

// deployed is what the availability zones said to an earlier run of the operator; what the administrator said is not.
func (c *configSync) deployed() (enabled, known bool) {
	if user, err := c.sources.user(); err == nil {
		if _, given, err := user.override(); given && err == nil {
			return false, false
		}
	}
	return c.remembered()
}

// report writes the conditions of a driver that waits for a first answer of the cloud, and of configuration without effect. What
// failed is in the condition of errors, and nothing is waited for then.
func (c *configSync) report(ctx context.Context, user userConfig, t topology, failed error) error {
	progressing := applyopv1.OperatorCondition().WithType(progressingType).WithStatus(opv1.ConditionFalse)
	switch {
	case failed != nil:
		progressing.WithReason(reasonError).WithMessage("The configuration of the driver is not up to date: see " + configSyncName + "Degraded")
	case !t.known:
		progressing.WithStatus(opv1.ConditionTrue).WithReason(reasonWaiting).WithMessage(t.doubt.Error())
	default:
		progressing.WithReason(reasonAsExpected).WithMessage("The configuration of the driver is written")
	}
	valid := applyopv1.OperatorCondition().WithType(validType).
		WithStatus(opv1.ConditionTrue).WithReason(reasonAsExpected).WithMessage("Nothing in the administrator's configuration is ignored")
	if len(user.ignored) > 0 {
		valid.WithStatus(opv1.ConditionFalse).WithReason(reasonIgnored).WithMessage(firstOf(user.ignored))
	}
	return c.cluster.Operator.ApplyOperatorStatus(ctx, configSyncManager, applyopv1.OperatorStatus().WithConditions(progressing, valid))
}

// firstOf joins the first lines.
func firstOf(lines []string) string {
	if more := len(lines) - maxLines; more > 0 {
		lines = append(slices.Clip(lines[:maxLines]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(lines, "\n")
}
