package settings

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Keys of the ConfigMap, which are also the names of flags.
const (
	keyTimeout     = "reclaim-space-timeout"
	keyConcurrency = "max-concurrent-reconciles"
	keyRetryDelay  = "csi-addons-node-retry-delay" // in seconds
	keyPrecedence  = "schedule-precedence"
	keyStagger     = "cronjob-stagger-window" // in hours
)

const (
	defaultRetryDelay = 5
	defaultStagger    = 2

	maxTimeout    = 24 * time.Hour
	maxConcurrent = 10_000
	maxRetryDelay = 5 * time.Minute
	maxStagger    = 24 * 31 * time.Hour
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

// Options are the settings that can change while the controller runs.
type Options struct {
	// ReclaimSpaceTimeout limits one call of a driver.
	ReclaimSpaceTimeout time.Duration
	// MaxConcurrent limits the calls of all drivers at the same time.
	MaxConcurrent int
	// NodeRetryDelay is the delay before the second attempt to connect to a sidecar.
	NodeRetryDelay time.Duration
	Precedence     Precedence
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
	check(o.ReclaimSpaceTimeout > 0 && o.ReclaimSpaceTimeout <= maxTimeout, keyTimeout,
		o.ReclaimSpaceTimeout)
	check(o.MaxConcurrent > 0 && o.MaxConcurrent <= maxConcurrent, keyConcurrency, o.MaxConcurrent)
	check(o.NodeRetryDelay > 0 && o.NodeRetryDelay <= maxRetryDelay, keyRetryDelay, o.NodeRetryDelay)
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
	case string(ClaimFirst):
		return ClaimFirst, nil
	case string(ClassOnly), "sc-only":
		return ClassOnly, nil
	default:
		return "", fmt.Errorf("%q is neither pvc nor storageclass", value)
	}
}

// Live contains the current options. It is safe for concurrent use.
type Live struct {
	base    Options
	current atomic.Pointer[Options]

	mu      sync.Mutex
	changed chan struct{}
}

// NewLive returns options that are those of the flags until Apply changes them.
func NewLive(base Options) *Live { return &Live{base: base, changed: make(chan struct{})} }

// Get returns the current options.
func (l *Live) Get() Options {
	if current := l.current.Load(); current != nil {
		return *current
	}
	return l.base
}

// Changed returns a channel that is closed at the next Apply.
func (l *Live) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Apply replaces the options of the flags by those in the data of the ConfigMap. It ignores an
// unknown key and an invalid value, and returns a warning for each.
func (l *Live) Apply(data map[string]string) []string {
	options := l.base
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		changed := options
		err := changed.set(key, data[key])
		if err != nil {
			warnings = append(warnings, err.Error())
			continue
		}
		if faults := changed.faults(); len(faults) > 0 {
			warnings = append(warnings, faults...)
			continue
		}
		options = changed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current.Store(&options)
	close(l.changed)
	l.changed = make(chan struct{})
	return warnings
}
