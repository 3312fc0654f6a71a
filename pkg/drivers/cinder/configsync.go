package cinder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// Where the operands' manifests mount what cloud.conf points to.
const (
	mountedClouds = "/etc/kubernetes/secret/clouds.yaml"
	mountedCA     = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
)

// Names of the controller and of its condition.
const (
	configSyncName    = "OpenStackCinderConfigSync"
	configSyncManager = configSyncName + "-Status"
	progressingType   = configSyncName + "Progressing"

	reasonAsExpected = "AsExpected"
	reasonWaiting    = "WaitingForOpenStack"
	reasonError      = "SyncError"
)

// errNotAnswered is what the driver waits for at first.
var errNotAnswered = errors.New(plugin.NotAnsweredYet)

// configSync keeps the ConfigMap that the CSI driver reads. What it cannot make anew, because the administrator's text is wrong
// or the cloud does not answer, stays as it was last.
type configSync struct {
	factory.Controller
	cluster *cluster.Cluster
	sources *sources
	zones   *zoneWatcher
	clock   clock.PassiveClock
	grace   time.Duration
}

func newConfigSync(s plugin.Surroundings, sources *sources, zones *zoneWatcher) *configSync {
	c := &configSync{
		cluster: s.Cluster,
		sources: sources,
		zones:   zones,
		clock:   clock.RealClock{},
		grace:   s.Settings.CloudGracePeriod,
	}
	syncCtx := factory.NewSyncContext(configSyncName, s.Events)
	zones.heard = func() { syncCtx.Queue().Add(factory.DefaultQueueKey) }
	f := factory.New().
		WithSyncContext(syncCtx).
		WithInformers(s.Cluster.Operator.Informer(), sources.credentials.Informer(), sources.own.Informer()).
		WithInformers(sources.informers...).
		WithFilteredEventsInformers(sources.isInstalledWith, sources.installed.Informer()).
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
func (c *configSync) cloudConf(side bundle.Side) coreinformers.ConfigMapInformer {
	return c.cluster.Side(side).Named.For(c.cluster.Placement.Namespace(side), configMap).Core().V1().ConfigMaps()
}

// sides are where cloud-conf is needed: once where both sides are one cluster.
func (c *configSync) sides() []bundle.Side {
	if c.cluster.Side(bundle.Controller) == c.cluster.Side(bundle.Guest) {
		return []bundle.Side{bundle.Guest}
	}
	return bundle.Sides()
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
	spec, _, _, err := c.cluster.Operator.GetOperatorState()
	if err != nil || spec.ManagementState != opv1.Managed {
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
		err = errors.Join(err, fmt.Errorf("no look at the availability zones for more than %v: %w", c.grace, topology.doubt))
	}
	return errors.Join(err, c.report(ctx, topology, err))
}

// topology is whether volumes are to follow pods into zones.
type topology struct {
	enabled bool
	// known is false while nobody has said.
	known bool
	// doubt is why the cloud's word is missing or may be old; nil where it is fresh or not asked for.
	doubt error
	// overdue says that the doubt has lasted longer than a cloud may fail.
	overdue bool
}

// topology is the administrator's word, else what the zones say, else what they said to an earlier run of the operator.
func (c *configSync) topology(user userConfig) (topology, error) {
	enabled, given, err := user.override()
	if given || err != nil {
		return topology{enabled: enabled, known: given}, err
	}
	answer := c.zones.current()
	t := topology{enabled: answer.topology, known: answer.known, doubt: answer.err}
	if answer.err != nil {
		t.overdue = c.clock.Since(answer.failingSince) > c.grace
	}
	if !answer.asked {
		t.doubt = errNotAnswered
	}
	if !t.known {
		t.enabled, t.known = c.remembered()
	}
	return t, nil
}

// remembered is what an earlier run of the operator wrote: to either side, for one of them may have been out of reach.
func (c *configSync) remembered() (enabled, known bool) {
	for _, side := range c.sides() {
		if existing := c.existing(side); existing != nil {
			if enabled, err := strconv.ParseBool(existing.Data[topologyKey]); err == nil {
				return enabled, true
			}
		}
	}
	return false, false
}

// write makes cloud-conf of its sources, as far as all of them are known. A side that refuses it keeps it from no other.
func (c *configSync) write(ctx context.Context, syncCtx factory.SyncContext, user userConfig, t topology) error {
	data, err := c.content(user, t.enabled)
	if err != nil || !t.known {
		return err
	}
	var errs []error
	for _, side := range c.sides() {
		if existing := c.existing(side); existing != nil && maps.Equal(existing.Data, data) && len(existing.BinaryData) == 0 {
			continue
		}
		namespace := c.cluster.Placement.Namespace(side)
		required := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: configMap}, Data: data}
		_, _, err := resourceapply.ApplyConfigMap(ctx, c.cluster.Side(side).Kube.CoreV1(), syncCtx.Recorder(), required)
		if err != nil {
			errs = append(errs, fmt.Errorf("writing %s: %w", c.cluster.Name(side, "ConfigMap", namespace, configMap), err))
		}
	}
	return errors.Join(errs...)
}

// content is what cloud-conf is to hold.
func (c *configSync) content(user userConfig, enabled bool) (map[string]string, error) {
	cloud, ca, err := c.sources.access()
	if err != nil {
		return nil, err
	}
	data := map[string]string{topologyKey: strconv.FormatBool(enabled)}
	options := Options{CloudsFile: mountedClouds, Cloud: cloud}
	if ca = cmp.Or(ca, user.ca.value); ca != "" {
		data[bundleKey], options.CAFile = ca, mountedCA
	}
	config, err := CloudConf([]byte(user.config.value), options)
	var syntax *SyntaxError
	if errors.As(err, &syntax) {
		return nil, fmt.Errorf("%s %w: correct it; the driver keeps the configuration it has", user.config.place, err)
	}
	if err != nil {
		return nil, fmt.Errorf("generating cloud.conf: %w", err)
	}
	data[configKey] = string(config)
	return data, nil
}

// existing is the cached cloud-conf of a side, nil if there is none.
func (c *configSync) existing(side bundle.Side) *corev1.ConfigMap {
	found, err := c.cloudConf(side).Lister().ConfigMaps(c.cluster.Placement.Namespace(side)).Get(configMap)
	if err != nil {
		return nil
	}
	return found
}

// report writes the condition of a driver that waits for a first answer of the cloud. What failed is in the condition of
// errors, and nothing is waited for then.
func (c *configSync) report(ctx context.Context, t topology, failed error) error {
	progressing := applyopv1.OperatorCondition().WithType(progressingType).WithStatus(opv1.ConditionFalse)
	switch {
	case failed != nil:
		progressing.WithReason(reasonError).WithMessage("The configuration of the driver is not up to date: see " + configSyncName + "Degraded")
	case !t.known:
		progressing.WithStatus(opv1.ConditionTrue).WithReason(reasonWaiting).WithMessage(t.doubt.Error())
	default:
		progressing.WithReason(reasonAsExpected).WithMessage("The configuration of the driver is written")
	}
	return c.cluster.Operator.ApplyOperatorStatus(ctx, configSyncManager, applyopv1.OperatorStatus().WithConditions(progressing))
}
