// Package settings is the only place where the operators read flags and environment variables. Everything is read once, all
// faults are reported at once, and the rest of the program receives plain values. Its caller is the operator core.
package settings

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Environment variables, apart from those of images and proxy.
const (
	envCloudsFile     = "OS_CLIENT_CONFIG_FILE"
	envReleaseVersion = "OPERATOR_IMAGE_VERSION"
	envFSGroupPolicy  = "CSI_FSGROUP_POLICY"
	envRunAsUser      = "RUN_AS_USER"
)

// Where the operator's Deployment mounts what it is given, and where Kubernetes mounts a pod's identity.
const (
	defaultCloudsFile = "/etc/openstack/clouds.yaml"
	// caFileName is the key `cacert` of the credentials Secret as it is mounted beside clouds.yaml.
	caFileName        = "ca.crt"
	inClusterIdentity = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// legacyCAs is where the operators' Deployments mount the cloud's CA when the credentials do not bring it: Manila's, Cinder's.
func legacyCAs() []string {
	return []string{
		"/etc/openstack-ca/ca-bundle.pem",
		"/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
	}
}

const (
	defaultGracePeriod  = 15 * time.Minute
	defaultPollInterval = time.Minute
	minPollInterval     = 100 * time.Millisecond
	// maxPollInterval is what the operators promise: to look at the cloud at least once a minute.
	maxPollInterval = time.Minute
)

// Settings is what the operator has been told.
type Settings struct {
	// Namespace is the operator's own.
	Namespace string
	// Kubeconfig is the path of the kubeconfig of the operator's own cluster; "" is the pod's identity.
	Kubeconfig string
	// Operator configures serving and leader election.
	Operator operatorv1alpha1.GenericOperatorConfig
	// RestartOn are the files whose change ends the process, with the content that was read, nil where none was.
	RestartOn map[string][]byte
	// Flavour follows from whether there is a GuestKubeconfig.
	Flavour flavour.Flavour
	// GuestKubeconfig is the path of the guest cluster's kubeconfig, "" when standalone.
	GuestKubeconfig string
	// Images are by the first variable of each that was asked for.
	Images map[string]string
	// ReleaseVersion is the release the operands belong to; "" when nobody says.
	ReleaseVersion string
	// Proxy are the proxy variables of the operator's own cluster, by name.
	Proxy []corev1.EnvVar
	// RunAsUser is the user ID of pods in a management cluster that assigns none; nil leaves it to the cluster.
	RunAsUser *int64
	// FSGroupPolicy replaces the CSIDriver's own; "" leaves it.
	FSGroupPolicy storagev1.FSGroupPolicy
	// CloudsFile is the path of clouds.yaml.
	CloudsFile string
	// CAFiles are the paths where the cloud's CA may be, by precedence.
	CAFiles []string
	// PollInterval is the time from one look at the cloud to the next.
	PollInterval time.Duration
	// CloudGracePeriod is how long the cloud may be unreachable before a driver that cannot do without it is degraded.
	CloudGracePeriod time.Duration
	// Warnings are settings that work, but not as well as they could.
	Warnings []string
}

// Flags are the flags of an operator's start command.
type Flags struct {
	config          string
	kubeconfig      string
	namespace       string
	listen          string
	restartOn       []string
	guestKubeconfig string
	pollInterval    time.Duration
	gracePeriod     time.Duration
	legacyCA        string
}

// AddTo registers the flags.
func (f *Flags) AddTo(set *pflag.FlagSet) {
	set.StringVar(&f.config, "config", "", "Path of a GenericOperatorConfig (operator.openshift.io/v1alpha1) in YAML: serving, leader election.")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "Path of the kubeconfig to use instead of the pod's own identity.")
	set.StringVar(&f.namespace, "namespace", "", "The operator's namespace. Default: the pod's.")
	set.StringVar(&f.listen, "listen", "", "Address to serve health and metrics on. Default: servingInfo.bindAddress of the config, 0.0.0.0:8443 without.")
	set.StringArrayVar(&f.restartOn, "terminate-on-files", nil, "File whose change ends the operator, for a new one to read it. May be repeated.")
	set.StringVar(&f.guestKubeconfig, "guest-kubeconfig", "", "Path of the guest cluster's kubeconfig; selects the hypershift flavour.")
	set.DurationVar(&f.pollInterval, "poll-interval", defaultPollInterval, "How often to look at OpenStack, between 100ms and 1m.")
	set.DurationVar(&f.gracePeriod, "cloud-grace-period", defaultGracePeriod, "How long OpenStack may be unreachable before a driver that needs it is reported as degraded.")
	set.StringVar(&f.legacyCA, "cloud-ca-file", "", "PEM bundle to trust when the credentials Secret brings no CA. Default: where the operator's Deployment mounts it.")
}

func (f *Flags) legacyCAs() []string {
	if f.legacyCA != "" {
		return []string{f.legacyCA}
	}
	return legacyCAs()
}

// Flavour follows from whether there is a guest kubeconfig.
func (f *Flags) Flavour() flavour.Flavour {
	if f.guestKubeconfig != "" {
		return flavour.HyperShift
	}
	return flavour.Standalone
}

// Load reads and checks flags and environment. images are variables of which one must hold an image, the best first. The error
// names every fault in one line.
func (f *Flags) Load(lookup func(string) (string, bool), images [][]string) (*Settings, error) {
	l := loader{lookup: lookup, restartOn: map[string][]byte{}}
	clouds := l.env(envCloudsFile, defaultCloudsFile)
	s := &Settings{
		Namespace:       l.namespace(f.namespace),
		Kubeconfig:      l.kubeconfig("kubeconfig", f.kubeconfig),
		RestartOn:       l.restartOn,
		Flavour:         f.Flavour(),
		GuestKubeconfig: l.guestKubeconfig(f.guestKubeconfig),
		Images:          l.images(images),
		ReleaseVersion:  l.env(envReleaseVersion, ""),
		Proxy:           l.proxy(),
		RunAsUser:       l.runAsUser(),
		FSGroupPolicy:   l.fsGroupPolicy(),
		CloudsFile:      clouds,
		CAFiles:         append([]string{filepath.Join(filepath.Dir(clouds), caFileName)}, f.legacyCAs()...),
		PollInterval:    l.pollInterval(f.pollInterval),

		CloudGracePeriod: l.gracePeriod(f.gracePeriod),
	}
	s.Operator = l.operatorConfig(f.config)
	for _, file := range f.restartOn {
		if _, read := s.RestartOn[file]; !read {
			s.RestartOn[file] = nil
		}
	}
	if f.listen != "" {
		s.Operator.ServingInfo.BindAddress = f.listen
	}
	s.Warnings = l.warnings
	return s, l.err()
}

// loader collects faults while it reads.
type loader struct {
	lookup           func(string) (string, bool)
	restartOn        map[string][]byte
	faults, warnings []string
}

func (l *loader) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func (l *loader) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

func (l *loader) err() error {
	if len(l.faults) == 0 {
		return nil
	}
	return errors.New("settings: " + strings.Join(l.faults, "; "))
}

func (l *loader) env(name, fallback string) string {
	if value, _ := l.lookup(name); value != "" {
		return value
	}
	return fallback
}

func (l *loader) namespace(given string) string {
	if given != "" {
		return given
	}
	namespace, err := os.ReadFile(inClusterIdentity)
	if err != nil {
		l.fault("flag --namespace is missing (outside a pod it must name the operator's namespace)")
	}
	return strings.TrimSpace(string(namespace))
}

func (l *loader) images(variables [][]string) map[string]string {
	images := map[string]string{}
	for _, names := range variables {
		best := names[0]
		for _, name := range names {
			if images[best] = l.env(name, ""); images[best] == "" {
				continue
			}
			if strings.ContainsAny(images[best], " \t\n${}\"'") {
				l.fault("environment variable %s is not the name of an image", name)
			}
			if name != best {
				l.warn("environment variable %s is missing: the image that %s names is used instead", best, name)
			}
			break
		}
		if images[best] == "" {
			l.fault("environment variable %s is missing: it must name an image", strings.Join(names, " or "))
		}
	}
	return images
}

func (l *loader) fsGroupPolicy() storagev1.FSGroupPolicy {
	value := storagev1.FSGroupPolicy(l.env(envFSGroupPolicy, ""))
	switch value {
	case "", storagev1.NoneFSGroupPolicy, storagev1.FileFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy:
	default:
		l.fault("environment variable %s is none of None, File, ReadWriteOnceWithFSType", envFSGroupPolicy)
	}
	return value
}

func (l *loader) pollInterval(value time.Duration) time.Duration {
	if value < minPollInterval || value > maxPollInterval {
		l.fault("flag --poll-interval is %v: it must be between %v and %v", value, minPollInterval, maxPollInterval)
	}
	return value
}

func (l *loader) gracePeriod(value time.Duration) time.Duration {
	if value < 0 {
		l.fault("flag --cloud-grace-period is %v: it must not be negative", value)
	}
	return value
}

// proxy returns the variables in the spelling that operators are given them.
func (l *loader) proxy() []corev1.EnvVar {
	var proxy []corev1.EnvVar
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"} {
		if value := l.env(name, ""); value != "" {
			proxy = append(proxy, corev1.EnvVar{Name: name, Value: value})
		}
	}
	return proxy
}

// runAsUser excludes root: the operands' pods must not be its.
func (l *loader) runAsUser() *int64 {
	value := l.env(envRunAsUser, "")
	if value == "" {
		return nil
	}
	id, err := strconv.ParseInt(value, 10, 64)
	if err != nil || id < 1 || id > math.MaxInt32 {
		l.fault("environment variable %s is %q: it must be a user ID between 1 and %d", envRunAsUser, value, math.MaxInt32)
	}
	return &id
}

// kubeconfig checks the file that a flag names; without the flag the pod's own identity is used.
func (l *loader) kubeconfig(flag, path string) string {
	if path != "" {
		l.readKubeconfig(flag, path)
	}
	return path
}

// guestKubeconfig also notes the file's content: it is replaced from time to time, and then read by a new process.
func (l *loader) guestKubeconfig(path string) string {
	if path != "" {
		l.restartOn[path] = l.readKubeconfig("guest-kubeconfig", path)
	}
	return path
}

func (l *loader) readKubeconfig(flag, path string) []byte {
	text, err := os.ReadFile(path)
	if err == nil {
		_, err = clientcmd.RESTConfigFromKubeConfig(text)
	}
	if err != nil {
		l.fault("flag --%s: %s cannot be read as a kubeconfig", flag, path)
	}
	return text
}

// operatorConfig reads the file that configures the process, and notes its content for a restart when it changes.
func (l *loader) operatorConfig(path string) (config operatorv1alpha1.GenericOperatorConfig) {
	if path == "" {
		return config
	}
	text, err := os.ReadFile(path)
	if err != nil {
		l.fault("flag --config: %s cannot be read", path)
		return config
	}
	l.restartOn[path] = text
	if err := yaml.Unmarshal(text, &config); err != nil {
		l.fault("flag --config: %s is not a GenericOperatorConfig in YAML", path)
	}
	if config.Kind != "" && config.Kind != "GenericOperatorConfig" {
		l.fault("flag --config: %s is a %s, want a GenericOperatorConfig", path, config.Kind)
	}
	return config
}
