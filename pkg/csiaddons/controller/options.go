package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Keys of the ConfigMap, which are also the names of flags.
const (
	keyTimeout     = "reclaim-space-timeout"
	keyConcurrency = "max-concurrent-reconciles"
	keyRetryDelay  = "csi-addons-node-retry-delay" // in seconds
	keyPrecedence  = "schedule-precedence"
	keyStagger     = "cronjob-stagger-window" // in hours
	keyInterval    = "min-schedule-interval"
)

const (
	defaultRetryDelay = 5
	defaultStagger    = 2

	maxConfiguredTimeout = 24 * time.Hour
	maxConcurrent        = 10_000
	maxRetryDelay        = 5 * time.Minute
	maxStagger           = 24 * 31 * time.Hour
)

// Precedence says where schedules are read.
type Precedence string

// The values of Precedence.
const (
	// ClaimFirst reads the claim, then its namespace, then its StorageClass. The first schedule
	// counts.
	ClaimFirst Precedence = "pvc"
	// ClassOnly reads only the StorageClass.
	ClassOnly Precedence = "storageclass"
)

// Options are the settings that a ConfigMap can change. The controller restarts then.
type Options struct {
	// ReclaimSpaceTimeout limits one call of a driver.
	ReclaimSpaceTimeout time.Duration
	// MaxConcurrent limits the calls of all drivers at the same time.
	MaxConcurrent int
	// NodeRetryDelay is the delay before the second attempt to connect to a sidecar.
	NodeRetryDelay time.Duration
	Precedence     Precedence
	// MinInterval is the shortest time between two jobs of a ReclaimSpaceCronJob.
	MinInterval time.Duration
	// StaggerWindow is the time over which jobs of the same schedule are spread; 0 means no spread.
	StaggerWindow time.Duration
}

// faults returns a line for each value out of its range.
func (o Options) faults() []string {
	var faults []string
	check := func(ok bool, key string, value any) {
		if !ok {
			faults = append(faults, fmt.Sprintf("%s is out of range: %v", key, value))
		}
	}
	check(o.ReclaimSpaceTimeout > 0 && o.ReclaimSpaceTimeout <= maxConfiguredTimeout, keyTimeout,
		o.ReclaimSpaceTimeout)
	check(o.MaxConcurrent > 0 && o.MaxConcurrent <= maxConcurrent, keyConcurrency, o.MaxConcurrent)
	check(o.NodeRetryDelay > 0 && o.NodeRetryDelay <= maxRetryDelay, keyRetryDelay, o.NodeRetryDelay)
	check(o.MinInterval >= 0 && o.MinInterval <= maxStagger, keyInterval, o.MinInterval)
	check(o.StaggerWindow >= 0 && o.StaggerWindow <= maxStagger, keyStagger, o.StaggerWindow)
	return faults
}

// set sets the value of one key.
func (o *Options) set(key, value string) error {
	var err error
	switch key {
	case keyTimeout:
		o.ReclaimSpaceTimeout, err = time.ParseDuration(value)
	case keyConcurrency:
		o.MaxConcurrent, err = strconv.Atoi(value)
	case keyRetryDelay:
		o.NodeRetryDelay, err = parseUnits(value, time.Second)
	case keyPrecedence:
		o.Precedence, err = parsePrecedence(value)
	case keyInterval:
		o.MinInterval, err = time.ParseDuration(value)
	case keyStagger:
		o.StaggerWindow, err = parseUnits(value, time.Hour)
	case "max-group-pvcs", "volume-health-cleanup-interval", "volume-health-stale-threshold":
		return nil // of operations that this controller does not have
	default:
		return fmt.Errorf("key %q is unknown", key)
	}
	if err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	return nil
}

func parseUnits(value string, unit time.Duration) (time.Duration, error) {
	const bits = 32
	number, err := strconv.ParseInt(value, 10, bits)
	return time.Duration(number) * unit, err
}

func parsePrecedence(value string) (Precedence, error) {
	switch value {
	case string(ClaimFirst), "":
		return ClaimFirst, nil
	case string(ClassOnly), "sc-only":
		return ClassOnly, nil
	default:
		return "", fmt.Errorf("%q is neither pvc nor storageclass", value)
	}
}

// with returns the options with those in the data of the ConfigMap. It ignores an unknown key and
// an invalid value, and returns a warning for each.
func (o Options) with(data map[string]string) (Options, []string) {
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		changed := o
		if err := changed.set(key, data[key]); err != nil {
			warnings = append(warnings, err.Error())
			continue
		}
		if faults := changed.faults(); len(faults) > 0 {
			warnings = append(warnings, faults...)
			continue
		}
		o = changed
	}
	return o, warnings
}

// optionsReconciler ends the controller when the ConfigMap contains other valid options.
type optionsReconciler struct {
	client client.Reader
	// flags are the options without a ConfigMap, and running those of this process.
	flags, running Options
	namespace      string
	events         events.EventRecorder
	end            context.CancelFunc
}

// Reconcile compares the options. If one is invalid, it records a warning and changes nothing.
func (r *optionsReconciler) Reconcile(ctx context.Context, _ reconcile.Request,
) (reconcile.Result, error) {
	found, err := readOptions(ctx, r.client, r.namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	options, warnings := r.flags.with(found.Data)
	switch {
	case len(warnings) > 0:
		text := strings.Join(warnings, "; ")
		log.FromContext(ctx).Info("Ignoring options of the ConfigMap", "reason", text)
		r.events.Eventf(found, nil, corev1.EventTypeWarning, "InvalidOption", "Apply",
			"Ignored: %.900s", text)
	case options != r.running:
		log.FromContext(ctx).Info("Restarting, because the options in the ConfigMap have changed")
		r.end()
	}
	return reconcile.Result{}, nil
}

// readOptions returns the ConfigMap with options. It is empty if it does not exist.
func readOptions(ctx context.Context, reader client.Reader, namespace string,
) (*corev1.ConfigMap, error) {
	found, name := &corev1.ConfigMap{}, client.ObjectKey{Namespace: namespace, Name: ConfigMap}
	if err := reader.Get(ctx, name, found); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	return found, nil
}
