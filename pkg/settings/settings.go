// Package settings is the only package that reads flags and environment variables. It reads
// everything once, reports all faults at once, and returns plain values to its caller,
// pkg/operator.
package settings

import (
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Environment variables, except the variables of images and proxies.
const (
	envReleaseVersion = "OPERATOR_IMAGE_VERSION"
	envFSGroupPolicy  = "CSI_FSGROUP_POLICY"
	envRunAsUser      = "RUN_AS_USER"
	envReleaseLeases  = "RELEASE_LEASES"
	envMonitorLabels  = "SERVICE_MONITOR_LABELS"

	envAPIServerTokens = "CSI_ADDONS_API_SERVER_TOKENS"
	envMaxAccessRules  = "CSI_ADDONS_MAX_ACCESS_RULES"
)

const inClusterIdentity = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// maxAccessRules is the maximum of CSI_ADDONS_MAX_ACCESS_RULES.
const maxAccessRules = 1000

const (
	defaultGracePeriod  = 15 * time.Minute
	defaultPollInterval = time.Minute
	minPollInterval     = 100 * time.Millisecond
	// maxPollInterval ensures that the operators probe the cloud at least once a minute.
	maxPollInterval = time.Minute
)

// CSIAddons configures the containers of CSI-Addons.
type CSIAddons struct {
	// APIServerTokens is true if sidecars accept tokens for the API server instead of tokens for their
	// pod. The controller of the CSI-Addons for Ceph sends such tokens.
	APIServerTokens bool
	// MaxAccessRules is the maximum number of access rules of a share while a client is fenced; 0
	// means the default of the container.
	MaxAccessRules int
}

// Settings contains the values of all flags and environment variables.
type Settings struct {
	Namespace string
	// Kubeconfig is the path of the kubeconfig for the cluster that the operator runs in; "" means the
	// identity of the pod.
	Kubeconfig string
	// Operator configures serving and leader election.
	Operator operatorv1alpha1.GenericOperatorConfig
	// RestartOn contains the files whose change restarts the operator, with the content that was read;
	// nil means that it was not read.
	RestartOn map[string][]byte
	// Flavour is HyperShift if there is a GuestKubeconfig, or else that of the flag.
	Flavour flavour.Flavour
	// GuestKubeconfig is the path of the guest cluster's kubeconfig, "" when standalone.
	GuestKubeconfig string
	// CredentialsSecret is the name of the driver Secret, "" for that of OpenShift.
	CredentialsSecret string
	// Images contains the images by the first of the variables that Load received for each. The
	// images of CSI-Addons may be missing.
	Images    map[string]string
	CSIAddons CSIAddons
	// ReleaseVersion is the release of the operands, "" if it is unknown.
	ReleaseVersion string
	Proxy          []corev1.EnvVar
	// RunAsUser is the user ID of the controllers' pods, for clusters that assign none; nil sets none.
	RunAsUser *int64
	// ReleaseLeases is whether sidecars get the feature gate ReleaseLeaderElectionOnExit; nil if the
	// operator decides.
	ReleaseLeases *bool
	// MonitorLabels are more labels of the ServiceMonitors.
	MonitorLabels labels.Set
	// FSGroupPolicy overrides the policy of the CSIDriver, unless it is "".
	FSGroupPolicy storagev1.FSGroupPolicy
	// PollInterval is the time between two probes of the cloud.
	PollInterval time.Duration
	// CloudGracePeriod is how long the cloud may be unreachable before a driver is degraded.
	CloudGracePeriod time.Duration
	// Warnings are about settings for which the operator uses a fallback.
	Warnings []string
}

// Flags are the flags of an operator's start command.
type Flags struct {
	settings                Settings
	config, listen, flavour string

	restartOn []string
}

// AddTo registers the flags.
func (f *Flags) AddTo(set *pflag.FlagSet) {
	set.StringVar(&f.config, "config", "",
		"Path of a GenericOperatorConfig in YAML, which configures serving and leader election.")
	set.StringVar(&f.settings.Kubeconfig, "kubeconfig", "",
		"Path of the kubeconfig to use instead of the identity of the pod.")
	set.StringVar(&f.settings.Namespace, "namespace", "",
		"Namespace of the operator. Default: the namespace of the pod.")
	set.StringVar(&f.listen, "listen", "", "Address that serves health and metrics. "+
		"Default: servingInfo.bindAddress of the config, or 0.0.0.0:8443.")
	set.StringArrayVar(&f.restartOn, "terminate-on-files", nil, "Exit when this file changes, "+
		"so that the restarted operator reads it. May be repeated.")
	set.StringVar(&f.settings.GuestKubeconfig, "guest-kubeconfig", "",
		"Path of the kubeconfig of the guest cluster. Selects the hypershift flavour.")
	set.StringVar(&f.flavour, "flavour", string(flavour.Standalone), "The kind of cluster: "+
		"standalone is OpenShift, kubernetes is a cluster that is not OpenShift.")
	set.StringVar(&f.settings.CredentialsSecret, "credentials-secret", "", "Name of the Secret with "+
		"clouds.yaml. Default: that of the cloud credential operator for the driver.")
	set.DurationVar(&f.settings.PollInterval, "poll-interval", defaultPollInterval,
		"Interval between two probes of OpenStack, from 100ms to 1m.")
	set.DurationVar(&f.settings.CloudGracePeriod, "cloud-grace-period", defaultGracePeriod,
		"How long OpenStack may be unreachable before a driver that needs it is reported as degraded.")
	set.Duration("credentials-wait", 0, "Without effect. Deployments of earlier releases set it.")
	set.String("cloud-ca-file", "", "Without effect. Deployments of earlier releases set it.")
}

// Flavour returns HyperShift if there is a guest kubeconfig, or else the flavour of the flag. Load
// reports a flavour that is unknown; here it is Standalone.
func (f *Flags) Flavour() flavour.Flavour {
	switch {
	case f.settings.GuestKubeconfig != "":
		return flavour.HyperShift
	case f.flavour == string(flavour.Kubernetes):
		return flavour.Kubernetes
	}
	return flavour.Standalone
}

// Load reads and checks flags and environment variables. Each element of images contains the
// variables of one image, by precedence. The optional images are those of CSI-Addons, which the
// administrator may also choose. The error names every fault in one line.
func (f *Flags) Load(
	lookup func(string) (string, bool), images, optional [][]string,
) (*Settings, error) {
	l := loader{lookup: lookup, restartOn: map[string][]byte{}}
	s := f.settings
	s.Flavour, s.RestartOn = f.Flavour(), l.restartOn
	s.Namespace = l.namespace(s.Namespace)
	l.kubeconfigs(s.Kubeconfig, s.GuestKubeconfig)
	l.flavour(f.flavour, s.GuestKubeconfig)
	s.Images = l.images(images)
	l.optionalImages(s.Images, optional)
	s.CSIAddons = CSIAddons{
		APIServerTokens: ptr.Deref(l.boolean(envAPIServerTokens), false),
		MaxAccessRules:  l.number(envMaxAccessRules, "a number of rules", maxAccessRules),
	}
	s.ReleaseVersion = l.env(envReleaseVersion)
	s.Proxy, s.RunAsUser, s.FSGroupPolicy = l.proxy(), l.runAsUser(), l.fsGroupPolicy()
	s.ReleaseLeases, s.MonitorLabels = l.boolean(envReleaseLeases), l.labels(envMonitorLabels)
	if s.PollInterval < minPollInterval || s.PollInterval > maxPollInterval {
		l.fault("flag --poll-interval is %v: it must be between %v and %v", s.PollInterval,
			minPollInterval, maxPollInterval)
	}
	if s.CloudGracePeriod < 0 {
		l.fault("flag --cloud-grace-period is %v: it must not be negative", s.CloudGracePeriod)
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
	return &s, l.err()
}

// flavour checks the flavour.
func (l *loader) flavour(flag, guestKubeconfig string) {
	kubernetes := flag == string(flavour.Kubernetes)
	switch {
	case !kubernetes && flag != string(flavour.Standalone):
		l.fault("flag --flavour is %q: use %s or %s; --guest-kubeconfig selects %s", flag,
			flavour.Standalone, flavour.Kubernetes, flavour.HyperShift)
	case kubernetes && guestKubeconfig != "":
		l.fault("flags --flavour=%s and --guest-kubeconfig exclude each other: a guest cluster is "+
			"OpenShift", flag)
	}
}
