package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

// errNoChoices means that the choices have been invalid since the operator started.
var errNoChoices = errors.New("the administrator's configuration is invalid")

// ReplacementTime is how long a ConfigMap may be missing before it counts as deleted. Some tools,
// such as `kubectl replace --force`, delete a ConfigMap and create it again.
const ReplacementTime = time.Minute

// Choices are the choices of the administrator, and report their changes. They are the key
// operator.yaml of a ConfigMap, or in the spec of the operator's object, which Get returns as the
// ConfigMap that would have the same effect. They need the informer to have synced.
// nil stands for a driver without choices: everything has its default.
type Choices struct {
	cluster.Object[corev1.ConfigMap]
	kind    choice.Kind
	flavour flavour.Flavour
	// inSpec is true if the choices are in the spec of the operator's object.
	inSpec bool
	// Clock is for tests.
	Clock clock.PassiveClock
	// deleted is notified when a missing ConfigMap counts as deleted, and when refused changes.
	deleted cluster.Signal

	mu sync.Mutex
	// known is the ConfigMap until it counts as deleted, and missing is since when it does not exist.
	known   *corev1.ConfigMap
	missing time.Time
	// last is the key as a call has read it last, the zero value before the first call.
	last cluster.Key
	// valid is true if config contains the last valid choices; nil means none.
	valid  bool
	config *choice.Config
	faults []choice.Fault
	// refused are faults in the options of pods, without lines.
	refused []choice.Fault
}

// NewChoices returns the choices in a ConfigMap beside the rest of the administrator's
// configuration, on the control plane side, or in the spec of the operator's object.
func NewChoices(c *cluster.Cluster, configMap string, kind choice.Kind) *Choices {
	choices := &Choices{
		kind: kind, flavour: c.Flavour, inSpec: c.Namespaces.UserConfig == "",
		Clock: clock.RealClock{},
	}
	if choices.inSpec {
		choices.Object = specOf(c, kind)
	} else {
		choices.Object = c.ConfigMap(flavour.ControlPlane, c.Namespaces.UserConfig, configMap)
	}
	return choices
}

// Current returns the last valid choices since the operator started; nil means that there are none,
// and that everything has its default. It returns an error if there were only invalid ones.
func (c *Choices) Current() (*choice.Config, error) {
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	if !c.valid {
		return nil, fmt.Errorf("%w: correct %s", errNoChoices, c.Place())
	}
	return c.config, nil
}

// Config returns the result of Current, or else the zero value.
func (c *Choices) Config() choice.Config {
	config, _ := c.Current()
	return ptr.Deref(config, choice.Config{})
}

// CSIAddons returns the choices about CSI-Addons.
func (c *Choices) CSIAddons() choice.CSIAddons {
	return ptr.Deref(c.Config().CSIAddons, choice.CSIAddons{})
}

// Informers report changes of the choices.
func (c *Choices) Informers() []factory.Informer {
	if c == nil {
		return nil
	}
	return []factory.Informer{c}
}

// AddEventHandler adds a handler of changes, which include that the ConfigMap counts as deleted.
func (c *Choices) AddEventHandler(
	h cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	_, _ = c.deleted.AddEventHandler(h) // returns no error
	return c.Object.AddEventHandler(h)
}

// Get returns the ConfigMap, or nil. A missing one stays for ReplacementTime as it was.
func (c *Choices) Get() *corev1.ConfigMap {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get()
}

func (c *Choices) get() *corev1.ConfigMap {
	switch found := c.Object.Get(); {
	case found != nil:
		c.known, c.missing = found, time.Time{}
	case c.known == nil:
	case c.missing.IsZero():
		c.missing = c.Clock.Now()
		time.AfterFunc(ReplacementTime, c.deleted.Notify)
	case c.Clock.Since(c.missing) >= ReplacementTime:
		c.known, c.missing = nil, time.Time{}
	}
	return c.known
}

// refresh reads the ConfigMap. It parses the text only if it has changed.
func (c *Choices) refresh() {
	key := c.keyIn(c.get(), choice.Key)
	if key == c.last {
		return
	}
	c.last, c.faults = key, nil
	var config *choice.Config
	switch {
	case key.Binary:
		c.faults = []choice.Fault{{Line: 1, Problem: "it is binary data, not UTF-8 text"}}
	case key.Exists:
		config, c.faults = choice.Parse(c.kind, key.Value, c.flavour)
	}
	if len(c.faults) == 0 {
		c.valid, c.config = true, config
	}
}

// Hook returns the hook that leaves a workload unchanged if there are only invalid choices.
func (c *Choices) Hook() hook.Workload {
	w := hook.Pods(func(*corev1.PodSpec) error {
		if _, err := c.Current(); err != nil {
			return fmt.Errorf("the workload stays unchanged: %w", err)
		}
		return nil
	})
	w.Informers = c.Informers()
	return w
}

// Refuse reports the faults that the API server has found in the options of pods, if any.
func (c *Choices) Refuse(faults []choice.Fault) {
	if c == nil {
		return
	}
	c.mu.Lock()
	changed := !slices.Equal(c.refused, faults)
	c.refused = faults
	c.mu.Unlock()
	if changed {
		c.deleted.Notify()
	}
}

// Condition returns <service>UserConfigValid. ignored lists what has no effect, with advice.
func (c *Choices) Condition(service string, ignored []string) *cluster.Condition {
	_, err := c.Current()
	c.mu.Lock()
	defer c.mu.Unlock()
	effect := "Until this is corrected, the last valid configuration applies"
	if err != nil {
		effect = "The operator changes no StorageClass and no workload until this is corrected"
	}
	found := c.faults
	if len(found) == 0 && len(c.refused) > 0 {
		found = choice.Located(c.last.Value, c.refused)
		effect = "Until this is corrected, the options of the pods stay as they were"
	}
	var faults []string
	for _, fault := range found {
		place := c.last.Source
		if !c.inSpec {
			place = fmt.Sprintf("%s, line %d", place, fault.Line)
		}
		faults = append(faults, place+": "+fault.Problem)
	}
	valid := cluster.NewCondition(service+"UserConfigValid", opv1.ConditionTrue, "AsExpected",
		"Nothing in the administrator's configuration is ignored")
	switch {
	case !c.missing.IsZero():
		valid.WithStatus(opv1.ConditionFalse).WithReason("Missing").WithMessage(c.Name + " is missing. " +
			"Its last content applies for a minute, in which a tool may replace it. Then the defaults apply")
	case len(faults) > 0:
		valid.WithStatus(opv1.ConditionFalse).WithReason("Invalid").
			WithMessage(cluster.Joined(append(faults, ignored...), maxReported, "\n") + "\n" + effect)
	case len(ignored) > 0:
		valid.WithStatus(opv1.ConditionFalse).WithReason("PartlyIgnored").
			WithMessage(cluster.Joined(ignored, maxReported, "\n"))
	}
	return valid
}

func (c *Choices) otherKeys() (ignored []string) {
	configMap := c.Get()
	if configMap == nil {
		return nil
	}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(configMap.Data)),
		maps.Keys(configMap.BinaryData))
	for _, key := range slices.Sorted(slices.Values(keys)) {
		if key != choice.Key {
			ignored = append(ignored, fmt.Sprintf("key %s of %s is ignored: only key %s is read. Rename "+
				"or remove it", key, c.Name, choice.Key))
		}
	}
	return ignored
}

// overridden reports the choices from which variables of the operator differ.
func (c *Choices) overridden(s *settings.Settings) (ignored []string) {
	config, addons := c.Config(), c.CSIAddons()
	var leases, policy string
	if s.ReleaseLeases != nil {
		leases = map[bool]string{true: choice.Always, false: choice.Never}[*s.ReleaseLeases]
	}
	if c.kind == choice.Manila { // the other operator does not read it
		policy = string(s.FSGroupPolicy)
	}
	sidecar, driver := bundle.CSIAddonsSidecarImage, bundle.CSIAddonsDriverImage
	limit := "CSI_ADDONS_MAX_ACCESS_RULES"
	unset := func(value any) bool { return value == "" || value == 0 }
	for _, o := range []struct {
		field, variable string
		chosen, set     any
	}{
		{"sidecars.releaseLeases", "RELEASE_LEASES", config.Sidecars.ReleaseLeases, leases},
		{"csiDriver.fsGroupPolicy", "CSI_FSGROUP_POLICY", config.CSIDriver.FSGroupPolicy, policy},
		{"csiAddons.image", sidecar, addons.Image, s.Images[sidecar]},
		{"csiAddons.image", driver, addons.Image, s.Images[driver]},
		{"csiAddons.maxAccessRules", limit, addons.MaxAccessRules, s.CSIAddons.MaxAccessRules},
	} {
		if !unset(o.chosen) && !unset(o.set) && o.chosen != o.set {
			ignored = append(ignored, fmt.Sprintf("%s: %s has no effect: the environment variable %s of "+
				"the operator has precedence. Remove one of them", c.Place(), o.field, o.variable))
		}
	}
	return ignored
}

const (
	// reportInterval bounds the age of the report about choices that depend on OpenStack.
	reportInterval = time.Minute
	// maxReported is the maximum number of lines in the condition.
	maxReported = 10
)

// Report returns the controller that reports the choices in the condition <service>UserConfigValid.
// unused returns the choices that have no effect, such as patterns that match nothing.
func (c *Choices) Report(
	d Dependencies, service string, unused func() []string,
) factory.Controller {
	name := service + "UserConfig"
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		valid := c.Condition(service, slices.Concat(c.otherKeys(),
			c.overridden(d.Settings), unused()))
		return cluster.ApplyConditions(ctx, d.Cluster.Operator, name, valid)
	}
	return factory.New().
		WithInformers(d.Cluster.Operator.Informer(), c).
		WithSync(cluster.WhileManaged(d.Cluster.Operator, sync)).
		WithSyncDegradedOnError(d.Cluster.Operator).
		ResyncEvery(reportInterval).
		ToController(name, d.Events)
}
