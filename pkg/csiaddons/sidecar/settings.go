package sidecar

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// Settings are the values of the flags.
type Settings struct {
	// Kubeconfig is the path of a kubeconfig; "" means the identity of the pod.
	Kubeconfig string
	// DriverAddress is the socket of the driver.
	DriverAddress string
	// StagingPath is the folder in which kubelet stages volumes.
	StagingPath string
	// Timeout limits a call whose caller sets no deadline.
	Timeout time.Duration
	// Port is the port to serve on. If another process uses it, the sidecar uses a free port.
	Port uint16
	// IP replaces the name of the pod in the published address, unless it is "".
	IP string
	// HTTPEndpoint is the address that serves metrics by HTTP; "" means none.
	HTTPEndpoint string
	Pod          Pod
	// Election contains the durations of leader election, and the namespace of the Lease.
	Election Election
	Access   Access
	TLS      TLS
	// Warnings are about flags without effect.
	Warnings []string
}

// Pod is the pod in which the sidecar runs.
type Pod struct {
	Name, Namespace, UID string
	// Node is the name of its Node.
	Node string
}

// Election configures leader election.
type Election struct {
	Namespace                                 string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Access says who may call the sidecar.
type Access struct {
	// Enabled turns on TLS and the check of tokens.
	Enabled bool
	// Audience is the audience of valid tokens; "" means the API server.
	Audience string
	// ServiceAccounts are the callers, as namespace/name. Without any, a SubjectAccessReview decides.
	ServiceAccounts []string
}

// TLS limits TLS connections. Zero values are the defaults of Go.
type TLS struct {
	MinVersion   uint16
	CipherSuites []uint16
	Curves       []tls.CurveID
}

// Flags are the flags of the command.
type Flags struct {
	settings     Settings
	ignored      *pflag.FlagSet
	minVersion   string
	cipherSuites []string
	curves       []string
}

const (
	defaultTimeout = 3 * time.Minute
	// ownUID is the placeholder for the UID of the pod in the default of --token-audience.
	ownUID = "<pod-uid>"
)

// AddTo registers the flags. Their names are those of the CSI-Addons for Ceph; the flags for the
// kubeconfig, for callers and for metrics are new.
func (f *Flags) AddTo(set *pflag.FlagSet) {
	s := &f.settings
	set.StringVar(&s.Kubeconfig, "kubeconfig", "",
		"Path of the kubeconfig to use instead of the identity of the pod.")
	set.StringVar(&s.DriverAddress, "csi-addons-address", "/run/csi-addons/socket",
		"Path of the socket on which the driver serves CSI-Addons.")
	set.StringVar(&s.Pod.Node, "node-id", "", "Name of the Node of the pod.")
	set.StringVar(&s.Pod.Name, "pod", "", "Name of the pod.")
	set.StringVar(&s.Pod.Namespace, "namespace", "", "Namespace of the pod.")
	set.StringVar(&s.Pod.UID, "pod-uid", "", "UID of the pod.")
	set.StringVar(&s.StagingPath, "stagingpath", "/var/lib/kubelet/plugins/kubernetes.io/csi/",
		"Folder in which kubelet stages volumes.")
	set.Uint16Var(&s.Port, "controller-port", wire.DefaultPort, "Port that serves the controller. "+
		"If another process uses it, the sidecar uses a free port and publishes that.")
	set.StringVar(&s.IP, "controller-ip", "", "IP address to publish instead of the name of the pod. "+
		"Controllers accept the name of a pod only.")
	set.DurationVar(&s.Timeout, "timeout", defaultTimeout, "Maximum duration of a call whose caller "+
		"sets no deadline. A deadline of the caller is limited to the longer of 1h and this value.")
	set.StringVar(&s.HTTPEndpoint, "http-endpoint", "", "Address that serves /metrics and /healthz "+
		"by HTTP, such as localhost:8080. Without a value the sidecar serves neither.")
	f.addElection(set)
	f.addSecurity(set)
	f.ignored = ignoredFlags()
	set.AddFlagSet(f.ignored)
}

// ignoredFlags returns the flags of the CSI-Addons for Ceph that have no effect here: those for the
// condition of volumes, and those of its libraries klog, zap and automaxprocs.
func ignoredFlags() *pflag.FlagSet {
	set := pflag.NewFlagSet("ignored", pflag.ContinueOnError)
	for _, name := range []string{
		"enable-volume-condition", "automaxprocs", "zap-devel", "logtostderr", "alsologtostderr",
		"add_dir_header", "legacy_stderr_threshold_behavior", "one_output", "skip_headers",
		"skip_log_headers",
	} {
		set.Bool(name, false, "")
	}
	for _, name := range []string{
		"volume-condition-interval", "volume-condition-recorders", "zap-encoder", "zap-log-level",
		"zap-stacktrace-level", "zap-time-encoding", "log_dir", "log_file", "log_file_max_size",
		"log_backtrace_at", "stderrthreshold", "alsologtostderrthreshold",
	} {
		set.String(name, "", "")
	}
	set.VisitAll(func(flag *pflag.Flag) { flag.Hidden = true })
	return set
}

func (f *Flags) addElection(set *pflag.FlagSet) {
	const lease, renew, retry = 15 * time.Second, 10 * time.Second, 5 * time.Second
	e := &f.settings.Election
	set.StringVar(&e.Namespace, "leader-election-namespace", "",
		"Namespace of the Lease. Default: the namespace of the pod.")
	set.DurationVar(&e.LeaseDuration, "leader-election-lease-duration", lease,
		"How long the Lease is valid after it was renewed, in whole seconds: at least "+
			"renew deadline and retry period together.")
	set.DurationVar(&e.RenewDeadline, "leader-election-renew-deadline", renew,
		"How long a pod stays the leader after it renewed the Lease.")
	set.DurationVar(&e.RetryPeriod, "leader-election-retry-period", retry,
		"Interval between two attempts to get or renew the Lease.")
}

func (f *Flags) addSecurity(set *pflag.FlagSet) {
	a := &f.settings.Access
	set.BoolVar(&a.Enabled, "enable-auth", true, "Serve TLS, and check the token of each caller. "+
		"With false, everybody who reaches the port can call the driver.")
	set.StringVar(&a.Audience, "token-audience", wire.Audience(ownUID), "Audience of the tokens of "+
		"callers. An empty value accepts tokens for the API server, as other controllers send them.")
	set.StringSliceVar(&a.ServiceAccounts, "allowed-service-accounts", nil,
		"ServiceAccounts that may call, as namespace/name. Without any, callers need the permission "+
			"to create csiaddonsnodes/calls in the namespace of the pod.")
	set.StringVar(&f.minVersion, "tls-min-version", "VersionTLS12", "Minimum TLS version: "+
		strings.Join(cliflag.TLSPossibleVersions(), ", ")+".")
	set.StringSliceVar(&f.cipherSuites, "tls-cipher-suites", nil,
		"Cipher suites of TLS 1.2. Default: those of Go.")
	set.StringSliceVar(&f.curves, "tls-curve-preferences", nil,
		"Names or numbers of the curves of TLS, such as X25519 or 29. Default: those of Go.")
}

// Load checks the flags. The error names every fault in one line.
func (f *Flags) Load() (*Settings, error) {
	s := f.settings
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, required := range []struct{ flag, value string }{
		{"node-id", s.Pod.Node},
		{"pod", s.Pod.Name},
		{"namespace", s.Pod.Namespace},
		{"pod-uid", s.Pod.UID},
	} {
		if required.value == "" {
			fault("flag --%s is missing", required.flag)
		}
	}
	if s.Access.Audience == wire.Audience(ownUID) {
		s.Access.Audience = wire.Audience(types.UID(s.Pod.UID))
	}
	if s.IP != "" && net.ParseIP(s.IP) == nil {
		fault("flag --controller-ip is %q: it must be an IP address", s.IP)
	}
	if s.Timeout <= 0 {
		fault("flag --timeout is %v: it must be positive", s.Timeout)
	}
	if s.Election.Namespace == "" {
		s.Election.Namespace = s.Pod.Namespace
	}
	if err := s.Election.validate(); err != nil {
		fault("%v", err)
	}
	for _, account := range s.Access.ServiceAccounts {
		namespace, name, _ := strings.Cut(account, "/")
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			fault("flag --allowed-service-accounts: %q is not namespace/name", account)
		}
	}
	var err error
	if s.TLS, err = f.tls(); err != nil {
		fault("%v", err)
	}
	f.ignored.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			s.Warnings = append(s.Warnings, "flag --"+flag.Name+" has no effect")
		}
	})
	if len(faults) > 0 {
		return nil, errors.New("settings: " + strings.Join(faults, "; "))
	}
	return &s, nil
}

// validate returns an error unless a leader without the Lease stops before another pod gets it.
func (e Election) validate() error {
	if e.RetryPeriod > 0 && e.LeaseDuration-e.RenewDeadline >= e.RetryPeriod &&
		e.LeaseDuration%time.Second == 0 && // a Lease contains whole seconds
		e.RenewDeadline.Seconds() > e.RetryPeriod.Seconds()*leaderelection.JitterFactor {
		return nil
	}
	return fmt.Errorf("leader election: the lease duration (%v) must be in whole seconds and at "+
		"least the renew deadline (%v) and the retry period (%v) together, and the deadline longer "+
		"than %v times the retry period",
		e.LeaseDuration, e.RenewDeadline, e.RetryPeriod, leaderelection.JitterFactor)
}

func (f *Flags) tls() (TLS, error) {
	version, err := cliflag.TLSVersion(f.minVersion)
	if err != nil {
		return TLS{}, fmt.Errorf("flag --tls-min-version: %w", err)
	}
	suites, err := cliflag.TLSCipherSuites(f.cipherSuites)
	if err != nil {
		return TLS{}, fmt.Errorf("flag --tls-cipher-suites: %w", err)
	}
	preferred, err := curves(f.curves)
	if err != nil {
		return TLS{}, fmt.Errorf("flag --tls-curve-preferences: %w", err)
	}
	return TLS{MinVersion: version, CipherSuites: suites, Curves: preferred}, nil
}

// curves returns curves by their names or numbers.
func curves(names []string) ([]tls.CurveID, error) {
	known := []tls.CurveID{
		tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519MLKEM768,
		tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024,
	}
	var found []tls.CurveID
	for _, name := range names {
		name = strings.TrimSpace(name)
		at := slices.IndexFunc(known, func(id tls.CurveID) bool {
			return name == id.String() || name == strconv.Itoa(int(id))
		})
		if at < 0 {
			return nil, fmt.Errorf("%q is not the name or the number of one of %v", name, known)
		}
		found = append(found, known[at])
	}
	return found, nil
}
