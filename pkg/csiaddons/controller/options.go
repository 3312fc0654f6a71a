package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfigMap is the name of the ConfigMap with options, in the namespace of the controller.
const ConfigMap = "csi-addons-config"

// keyInterval is the key and the flag of Options.MinInterval.
const keyInterval = "min-schedule-interval"

// Options are the flags that are also keys of the ConfigMap.
type Options struct {
	// ReclaimSpaceTimeout limits one call of a driver.
	ReclaimSpaceTimeout time.Duration
	// MaxConcurrent limits the calls of all drivers at the same time.
	MaxConcurrent int
	// NodeRetryDelay is the delay before the second attempt to connect to a sidecar, in seconds.
	NodeRetryDelay int
	// Precedence says whose annotations count: pvc (or nothing) or storageclass (or sc-only).
	Precedence string
	// MinInterval is the shortest time between two jobs of a ReclaimSpaceCronJob.
	MinInterval time.Duration
	// StaggerWindow is the number of hours over which jobs of the same schedule are spread.
	StaggerWindow int
}

// addTo registers the flags. The options are their defaults.
func (o *Options) addTo(set *pflag.FlagSet) {
	set.DurationVar(&o.ReclaimSpaceTimeout, "reclaim-space-timeout", o.ReclaimSpaceTimeout,
		"Maximum duration of one call of a driver that reclaims space.")
	set.IntVar(&o.MaxConcurrent, "max-concurrent-reconciles", o.MaxConcurrent,
		"Maximum number of calls of all drivers that reclaim space at the same time.")
	set.IntVar(&o.NodeRetryDelay, "csi-addons-node-retry-delay", o.NodeRetryDelay,
		"Seconds before a failed connection to a sidecar is tried again. The delay doubles with each "+
			"attempt, to at most five minutes.")
	set.StringVar(&o.Precedence, "schedule-precedence", o.Precedence,
		"Whose annotations schedule the reclaiming of space: pvc (the claim, otherwise its namespace, "+
			"otherwise its StorageClass) or storageclass (only the StorageClass).")
	set.DurationVar(&o.MinInterval, keyInterval, o.MinInterval,
		"Shortest time between two jobs of a ReclaimSpaceCronJob, whatever its schedule.")
	set.IntVar(&o.StaggerWindow, "cronjob-stagger-window", o.StaggerWindow,
		"Hours over which jobs of the same schedule are spread. 0 starts them at the same time.")
}

// classOnly returns whether only the annotations of StorageClasses schedule claims.
func (o *Options) classOnly() bool {
	return o.Precedence == "storageclass" || o.Precedence == "sc-only"
}

// faults returns a line for each value out of its range.
func (o *Options) faults() []string {
	const maxTimeout, maxConcurrent, maxDelay = 24 * time.Hour, 10_000, 300
	const month = 31 * 24 // in hours
	var faults []string
	check := func(ok bool, key string, value any) {
		if !ok {
			faults = append(faults, fmt.Sprintf("%s is out of range: %v", key, value))
		}
	}
	check(o.ReclaimSpaceTimeout > 0 && o.ReclaimSpaceTimeout <= maxTimeout, "reclaim-space-timeout",
		o.ReclaimSpaceTimeout)
	check(o.MaxConcurrent > 0 && o.MaxConcurrent <= maxConcurrent, "max-concurrent-reconciles",
		o.MaxConcurrent)
	check(o.NodeRetryDelay > 0 && o.NodeRetryDelay <= maxDelay, "csi-addons-node-retry-delay",
		o.NodeRetryDelay)
	check(o.MinInterval >= 0 && o.MinInterval <= month*time.Hour, keyInterval, o.MinInterval)
	check(o.StaggerWindow >= 0 && o.StaggerWindow <= month, "cronjob-stagger-window",
		o.StaggerWindow)
	if !o.classOnly() && o.Precedence != "pvc" && o.Precedence != "" {
		faults = append(faults, fmt.Sprintf("schedule-precedence is neither pvc nor storageclass: %q",
			o.Precedence))
	}
	return faults
}

// with returns the options with those in the data of the ConfigMap. It ignores an unknown key and
// an invalid value, and returns a warning for each.
func (o Options) with(data map[string]string) (Options, []string) {
	var warnings []string
	set := pflag.NewFlagSet(ConfigMap, pflag.ContinueOnError)
	o.addTo(set)
	foreign := []string{ // of operations that this controller does not have
		"max-group-pvcs", "volume-health-cleanup-interval", "volume-health-stale-threshold",
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		before := o
		switch err := set.Set(key, data[key]); {
		case slices.Contains(foreign, key):
		case set.Lookup(key) == nil:
			warnings = append(warnings, fmt.Sprintf("key %q is unknown", key))
		case err != nil:
			warnings = append(warnings, fmt.Sprintf("key %q: %v", key, err))
			o = before // pflag has changed it
		case len(o.faults()) > 0:
			warnings = append(warnings, o.faults()...)
			o = before
		}
	}
	return o, warnings
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
