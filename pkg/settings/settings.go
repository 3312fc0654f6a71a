// Package settings is the only place where the operators read flags and environment variables. Everything is read once, all
// faults are reported at once, and the rest of the program receives plain values. Its caller is the operator core.
package settings

import (
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

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
	defaultGracePeriod = 15 * time.Minute
	// defaultCredentialsWait is also the most: a rollout must not wait for ever.
	defaultCredentialsWait = 10 * time.Minute
	defaultPollInterval    = time.Minute
	minPollInterval        = 100 * time.Millisecond
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
	// CredentialsWait is how long pods wait for new credentials that OpenStack has not accepted.
	CredentialsWait time.Duration
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
	credentialsWait time.Duration
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
	set.DurationVar(&f.credentialsWait, "credentials-wait", defaultCredentialsWait, "How long a rollout waits for new credentials that OpenStack has not accepted, 10m at most.")
	set.StringVar(&f.legacyCA, "cloud-ca-file", "", "PEM bundle to trust when the credentials Secret brings no CA. Default: where the operator's Deployment mounts it.")
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
		CAFiles:         append([]string{filepath.Join(filepath.Dir(clouds), caFileName)}, l.cloudCA(f.legacyCA)...),
		PollInterval:    l.pollInterval(f.pollInterval),

		CloudGracePeriod: l.gracePeriod(f.gracePeriod),
		CredentialsWait:  l.credentialsWait(f.credentialsWait),
	}
	s.Operator = l.operatorConfig(f.config)
	for _, file := range f.restartOn {
		if _, read := s.RestartOn[file]; !read {
			s.RestartOn[file] = nil
		}
	}
	l.listen(&s.Operator, f.listen)
	s.Warnings = l.warnings
	return s, l.err()
}
