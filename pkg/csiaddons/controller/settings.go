package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

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

// drivers combines the flags about drivers.
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
