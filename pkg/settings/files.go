package settings

import (
	"math"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// kubeconfigs checks the kubeconfig files. It records the content of the guest cluster's, because
// HyperShift replaces it from time to time; the operator restarts to read it again.
func (l *loader) kubeconfigs(own, guest string) {
	if own != "" {
		l.readKubeconfig("kubeconfig", own, math.MaxInt)
	}
	if guest != "" {
		l.restartOn[guest] = l.readKubeconfig("guest-kubeconfig", guest, maxKubeconfig)
	}
}

// maxKubeconfig is the maximum size of the kubeconfig of a guest cluster, in bytes.
const maxKubeconfig = 128 << 10

func (l *loader) readKubeconfig(flag, path string, limit int) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		l.fault("flag --%s: %v", flag, err)
		return nil
	}
	if err := position.Fits(text, limit); err != nil {
		l.fault("flag --%s: %s %v", flag, path, err)
		return nil
	}
	if _, err = clientcmd.RESTConfigFromKubeConfig(text); err != nil {
		l.fault("flag --%s: %s is not a kubeconfig", flag, path) // the error may quote the file
	}
	return text
}

// operatorConfig reads the configuration file, and records its content, so that a change restarts
// the operator.
func (l *loader) operatorConfig(path string) (config operatorv1alpha1.GenericOperatorConfig) {
	if path == "" {
		return config
	}
	text, err := os.ReadFile(path)
	if err != nil {
		l.fault("flag --config: %v", err)
		return config
	}
	l.restartOn[path] = text
	if err := yaml.Unmarshal(text, &config); err != nil {
		l.fault("flag --config: %s is not a GenericOperatorConfig in YAML", path)
		return config
	}
	// An unknown field may be defined by a later release.
	if err := yaml.UnmarshalStrict(text, &operatorv1alpha1.GenericOperatorConfig{}); err != nil {
		l.warn("flag --config: %s contains fields that are ignored: %s",
			path, strings.Join(strings.Fields(err.Error()), " "))
	}
	if config.Kind != "" && config.Kind != "GenericOperatorConfig" {
		l.fault("flag --config: %s is a %s, want a GenericOperatorConfig", path, config.Kind)
	}
	return config
}
