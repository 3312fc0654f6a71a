package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// Settings are the values of the flags.
type Settings struct {
	// Kubeconfig is the path of a kubeconfig; "" means the identity of the pod.
	Kubeconfig string
	// Namespace, Pod and ServiceAccount are those of the controller.
	Namespace, Pod, ServiceAccount string
	// UnverifiedAccount is the ServiceAccount of tokens for sidecars that are not verified.
	UnverifiedAccount string
	// MetricsAddress and ProbeAddress are host:port; "0" turns the server off.
	MetricsAddress, ProbeAddress string
	// SecureMetrics turns on TLS and the check of tokens for metrics.
	SecureMetrics bool
	LeaderElect   bool
	// LeaseDuration, RenewDeadline and RetryPeriod are those of leader election.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// MaxPerDriver limits the calls of one driver at the same time.
	MaxPerDriver int
	Drivers      connection.Drivers
	// OtherNamespaces are namespaces in which other controllers of CSI-Addons may run. The
	// program adds its own namespace and that of OpenShift Data Foundation.
	OtherNamespaces []string
	// Options are the options without a ConfigMap.
	Options Options
}

// Flags are the flags of the command.
type Flags struct {
	settings                    Settings
	namespaces, insecure, plain []string
}

// AddTo registers the flags. Those that the CSI-Addons for Ceph has too have the same names.
func (f *Flags) AddTo(set *pflag.FlagSet) {
	s := &f.settings
	set.StringVar(&s.Kubeconfig, "kubeconfig", "",
		"Path of the kubeconfig to use instead of the identity of the pod.")
	set.StringVar(&s.Namespace, "namespace", "", "Namespace of the controller.")
	set.StringVar(&s.Pod, "pod", "", "Name of the pod of the controller. Tokens of the controller "+
		"are not valid without it.")
	set.StringVar(&s.ServiceAccount, "service-account", "csi-addons-controller-manager",
		"Name of the ServiceAccount of the controller.")
	set.StringVar(&s.MetricsAddress, "metrics-bind-address", "0",
		"Address that serves metrics, such as :8443. 0 turns it off.")
	set.BoolVar(&s.SecureMetrics, "metrics-secure", true,
		"Serve metrics with TLS to users who may get the path /metrics.")
	set.StringVar(&s.ProbeAddress, "health-probe-bind-address", ":8081",
		"Address that serves /healthz and /readyz. 0 turns it off.")
	set.BoolVar(&s.LeaderElect, "leader-elect", false,
		"Run only if this process holds the Lease of the controller.")
	const lease, renew, retry = 15 * time.Second, 10 * time.Second, 2 * time.Second
	set.DurationVar(&s.LeaseDuration, "leader-election-lease-duration", lease,
		"Time after which another process may take a Lease that was not renewed.")
	set.DurationVar(&s.RenewDeadline, "leader-election-renew-deadline", renew,
		"Time after which the process ends if it cannot renew its Lease.")
	set.DurationVar(&s.RetryPeriod, "leader-election-retry-period", retry,
		"Time between two attempts to get or renew the Lease.")
	set.StringSliceVar(&s.OtherNamespaces, "other-controller-namespaces", nil,
		"Namespaces in which the controller of the CSI-Addons for Ceph may run, besides the namespace "+
			"of this controller and, on OpenShift, openshift-storage. While it runs in one of them, "+
			"this controller does nothing, so they must belong to administrators.")
	const timeout, concurrent, perDriver, retryDelay, stagger = 3 * time.Minute, 100, 10, 5, 2
	set.IntVar(&s.MaxPerDriver, "max-concurrent-per-driver", perDriver,
		"Maximum number of calls of one driver that reclaim space at the same time.")
	s.Options = Options{
		ReclaimSpaceTimeout: timeout, MaxConcurrent: concurrent, NodeRetryDelay: retryDelay,
		Precedence: "pvc", MinInterval: time.Minute, StaggerWindow: stagger,
	}
	s.Options.addTo(set)
	f.addDrivers(set)
}

func (f *Flags) addDrivers(set *pflag.FlagSet) {
	set.StringSliceVar(&f.namespaces, "driver-namespaces", nil,
		"Namespaces of the pods of each driver, as driver=namespace. The controller trusts all pods of "+
			"such a namespace, so it must exist and belong to administrators. The controller ignores "+
			"other drivers and namespaces.")
	set.StringSliceVar(&f.insecure, "insecure-drivers", nil,
		"Drivers with sidecars of the CSI-Addons for Ceph. The controller does not verify their "+
			"certificates, and sends them a token of the ServiceAccount in "+
			"--unverified-service-account, which the API server accepts for ten minutes.")
	set.StringVar(&f.settings.UnverifiedAccount, "unverified-service-account",
		"csi-addons-unverified", "Name of a ServiceAccount without permissions, in the namespace of the "+
			"controller, for tokens of --insecure-drivers.")
	set.StringSliceVar(&f.plain, "plaintext-drivers", nil,
		"Drivers whose sidecars run with --enable-auth=false. The controller uses neither TLS nor "+
			"tokens.")
}

// Load checks the flags. The error names every fault in one line.
func (f *Flags) Load() (*Settings, error) {
	s := f.settings
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if s.Namespace == "" {
		fault("flag --namespace is missing")
	}
	if s.MaxPerDriver < 1 {
		fault("flag --max-concurrent-per-driver is %d: it must be positive", s.MaxPerDriver)
	}
	if s.UnverifiedAccount == s.ServiceAccount {
		fault("flag --unverified-service-account is that of the controller: a sidecar could use its " +
			"permissions")
	}
	var err error
	if s.Drivers, err = f.drivers(); err != nil {
		fault("%v", err)
	}
	faults = append(faults, s.Options.faults()...)
	if len(faults) > 0 {
		slices.Sort(faults)
		return nil, errors.New("settings: " + strings.Join(faults, "; "))
	}
	return &s, nil
}

func (f *Flags) drivers() (connection.Drivers, error) {
	found := map[string]connection.Driver{}
	for _, pair := range f.namespaces {
		name, namespace, ok := strings.Cut(pair, "=")
		if !ok || name == "" || len(validation.IsDNS1123Label(namespace)) > 0 {
			return nil, fmt.Errorf("flag --driver-namespaces: %q is not driver=namespace", pair)
		}
		driver := found[name]
		driver.Namespaces = append(driver.Namespaces, namespace)
		found[name] = driver
	}
	if len(found) == 0 {
		return nil, errors.New("flag --driver-namespaces is missing: name the drivers and the " +
			"namespaces of their pods, such as cinder.csi.openstack.org=openshift-cluster-csi-drivers")
	}
	for security, names := range map[connection.Security][]string{
		connection.Unverified: f.insecure, connection.Plaintext: f.plain,
	} {
		for _, name := range names {
			driver, ok := found[name]
			if !ok || driver.Security != connection.Pinned {
				return nil, fmt.Errorf("driver %q must be in --driver-namespaces, and in one of the flags "+
					"--insecure-drivers and --plaintext-drivers", name)
			}
			driver.Security = security
			found[name] = driver
		}
	}
	return found, nil
}

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
