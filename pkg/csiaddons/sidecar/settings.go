package sidecar

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// Settings are the values of the flags.
type Settings struct {
	// Kubeconfig is the path of a kubeconfig; "" means the identity of the pod.
	Kubeconfig string
	// DriverAddress is the socket of the driver.
	DriverAddress string
	// ManilaNodeAddresses are the addresses of the Node, if the sidecar itself serves Manila's node
	// service for the driver.
	ManilaNodeAddresses []net.IP
	// ManilaName is the name of the CSI driver in this case.
	ManilaName string
	// StagingPath is the folder in which kubelet stages volumes.
	StagingPath string
	// Timeout limits a call whose caller sets no deadline.
	Timeout time.Duration
	// Port is the port to serve on. If another process uses it, the sidecar uses a free port.
	Port uint16
	// HTTPEndpoint is the address that serves metrics by HTTP; "" means none.
	HTTPEndpoint string
	Pod          Pod
	// Election contains the durations of leader election.
	Election Election
	Access   Access
	TLS      *tls.Config
}

// Pod is the pod in which the sidecar runs.
type Pod struct {
	Name, Namespace, UID string
	// Node is the name of its Node.
	Node string
}

// Election configures leader election.
type Election struct {
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Access says who may call the sidecar.
type Access struct {
	// Enabled turns on TLS and the check of tokens.
	Enabled bool
	// Audience is the audience of valid tokens; "" means the API server.
	Audience string
}

// Flags are the flags of the command.
type Flags struct {
	settings     Settings
	set          *pflag.FlagSet
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
	set.IPSliceVar(&s.ManilaNodeAddresses, "manila-node-addresses", nil, "IP addresses of the Node "+
		"of the pod, one of each family. With them the sidecar calls no socket: in the pods of "+
		"Manila's node service it only returns addresses of the node.")
	set.StringVar(&s.ManilaName, "driver-name", "manila.csi.openstack.org",
		"Name of the CSI driver if --manila-node-addresses is set.")
	set.StringVar(&s.Pod.Node, "node-id", "", "Name of the Node of the pod.")
	set.StringVar(&s.Pod.Name, "pod", "", "Name of the pod.")
	set.StringVar(&s.Pod.Namespace, "namespace", "", "Namespace of the pod.")
	set.StringVar(&s.Pod.UID, "pod-uid", "", "UID of the pod.")
	set.StringVar(&s.StagingPath, "stagingpath", "/var/lib/kubelet/plugins/kubernetes.io/csi/",
		"Folder in which kubelet stages volumes.")
	set.Uint16Var(&s.Port, "controller-port", wire.DefaultPort, "Port that serves the controller. "+
		"If another process uses it, the sidecar uses a free port and publishes that.")
	set.DurationVar(&s.Timeout, "timeout", defaultTimeout, "Maximum duration of a call whose caller "+
		"sets no deadline. A deadline of the caller is limited to the longer of 1h and this value.")
	set.StringVar(&s.HTTPEndpoint, "http-endpoint", "", "Address that serves /metrics and /healthz "+
		"by HTTP, such as localhost:8080. Without a value the sidecar serves neither.")
	f.addElection(set)
	f.addSecurity(set)
	addIgnored(set)
	f.set = set
}

// addIgnored registers the flags of the CSI-Addons for Ceph that have no effect here: those for the
// condition of volumes, the IP address, the namespace of the Lease, which controllers only find in
// that of the pod, and those of its libraries klog, zap and automaxprocs.
func addIgnored(set *pflag.FlagSet) {
	switches := []string{
		"enable-volume-condition", "automaxprocs", "zap-devel", "logtostderr", "alsologtostderr",
		"add_dir_header", "legacy_stderr_threshold_behavior", "one_output", "skip_headers",
		"skip_log_headers",
	}
	values := []string{
		"controller-ip", "leader-election-namespace", "volume-condition-interval",
		"volume-condition-recorders", "zap-encoder",
		"zap-log-level", "zap-stacktrace-level", "zap-time-encoding", "log_dir", "log_file",
		"log_file_max_size", "log_backtrace_at", "stderrthreshold", "alsologtostderrthreshold",
	}
	for _, name := range switches {
		set.Bool(name, false, "")
	}
	for _, name := range values {
		set.String(name, "", "")
	}
	for _, name := range slices.Concat(switches, values) {
		_ = set.MarkDeprecated(name, "it has no effect") // fails only without the flag
	}
}

func (f *Flags) addElection(set *pflag.FlagSet) {
	const lease, renew, retry = 15 * time.Second, 10 * time.Second, 5 * time.Second
	e := &f.settings.Election
	set.DurationVar(&e.LeaseDuration, "leader-election-lease-duration", lease,
		"How long the Lease is valid after it was renewed.")
	set.DurationVar(&e.RenewDeadline, "leader-election-renew-deadline", renew,
		"How long a pod stays the leader after it renewed the Lease. The Lease must be valid longer.")
	set.DurationVar(&e.RetryPeriod, "leader-election-retry-period", retry,
		"Interval between two attempts to get or renew the Lease.")
}

func (f *Flags) addSecurity(set *pflag.FlagSet) {
	a := &f.settings.Access
	set.BoolVar(&a.Enabled, "enable-auth", true, "Serve TLS, and check the token of each caller. "+
		"With false, everybody who reaches the port can call the driver. Callers need the permission "+
		"to create csiaddonsnodes/calls in the namespace of the pod.")
	set.StringVar(&a.Audience, "token-audience", wire.Audience(ownUID), "Audience of the tokens of "+
		"callers. An empty value accepts tokens for the API server, as other controllers send them.")
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
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, name := range []string{"node-id", "pod", "namespace", "pod-uid"} {
		if f.set.Lookup(name).Value.String() == "" {
			fault("flag --%s is missing", name)
		}
	}
	if s.Access.Audience == wire.Audience(ownUID) {
		s.Access.Audience = wire.Audience(types.UID(s.Pod.UID))
	}
	if s.Timeout <= 0 {
		fault("flag --timeout is %v: it must be positive", s.Timeout)
	}
	version, err := cliflag.TLSVersion(f.minVersion)
	if err != nil {
		fault("flag --tls-min-version: %w", err)
	}
	s.TLS = &tls.Config{MinVersion: max(version, tls.VersionTLS12)}
	if s.TLS.CipherSuites, err = cliflag.TLSCipherSuites(f.cipherSuites); err != nil {
		fault("flag --tls-cipher-suites: %w", err)
	}
	if s.TLS.CurvePreferences, err = curves(f.curves); err != nil {
		fault("flag --tls-curve-preferences: %w", err)
	}
	if err := utilerrors.NewAggregate(faults); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	return &s, nil
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
