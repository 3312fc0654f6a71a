package settings

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
)

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
