package settings

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// loader collects faults and warnings while it reads flags and environment variables.
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

func (l *loader) env(name string) string {
	value, _ := l.lookup(name)
	return value
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
			if images[best] = l.env(name); images[best] == "" {
				continue
			}
			if strings.ContainsAny(images[best], " \t\n${}\"'") {
				l.fault("environment variable %s is not the name of an image", name)
			}
			if name != best {
				l.warn("environment variable %s is missing: the image of %s is used instead", best, name)
			}
			break
		}
		if images[best] == "" {
			l.fault("environment variable %s is missing: it must name an image",
				strings.Join(names, " or "))
		}
	}
	return images
}

// optionalImages adds the images that are set to images. It warns if only some of them are set.
func (l *loader) optionalImages(images map[string]string, optional [][]string) {
	var given, missing []string
	for _, names := range optional {
		switch {
		case images[names[0]] != "": // a required image
		case slices.ContainsFunc(names, func(name string) bool { return l.env(name) != "" }):
			given = append(given, names[0])
			maps.Copy(images, l.images([][]string{names}))
		default:
			missing = append(missing, strings.Join(names, " or "))
		}
	}
	if len(given) > 0 && len(missing) > 0 {
		l.warn("environment variable %s is missing: the pods get no containers of CSI-Addons, although "+
			"%s is set, unless the administrator sets csiAddons.image", strings.Join(missing, ", "),
			strings.Join(given, ", "))
	}
}

// fsGroupPolicy ignores unknown values, because the policy of the asset is a safe value.
func (l *loader) fsGroupPolicy() storagev1.FSGroupPolicy {
	value := storagev1.FSGroupPolicy(l.env(envFSGroupPolicy))
	switch value {
	case "", storagev1.NoneFSGroupPolicy, storagev1.FileFSGroupPolicy,
		storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy:
		return value
	default:
		l.warn("environment variable %s is %q: it is ignored, because it is not one of "+
			"None, File, ReadWriteOnceWithFSType", envFSGroupPolicy, value)
		return ""
	}
}

// proxy returns the proxy variables, which OpenShift sets in capital letters.
func (l *loader) proxy() []corev1.EnvVar {
	var proxy []corev1.EnvVar
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"} {
		if value := l.env(name); value != "" {
			if _, err := url.Parse(value); err != nil && strings.Contains(value, "://") {
				l.warn("environment variable %s is not a URL, so the proxy is not used: in user and password, "+
					"write %%25 for %%, %%23 for #, %%2F for / and %%40 for @", name)
			}
			proxy = append(proxy, corev1.EnvVar{Name: name, Value: value})
		}
	}
	return proxy
}

// runAsUser ignores root and invalid user IDs. Pods without a user ID still never run as root.
func (l *loader) runAsUser() *int64 {
	id := int64(l.number(envRunAsUser, "a user ID", math.MaxInt32))
	if id == 0 {
		return nil
	}
	return &id
}

// number returns 0 if the variable is missing, or is not a number between 1 and the maximum.
func (l *loader) number(name, what string, maximum int) int {
	value := l.env(name)
	if value == "" {
		return 0
	}
	number, err := strconv.Atoi(value)
	if err != nil || number < 1 || number > maximum {
		l.warn("environment variable %s is %q: it is ignored, because it is not %s between 1 and %d",
			name, value, what, maximum)
		return 0
	}
	return number
}

// boolean returns nil if the variable is missing, or is neither true nor false.
func (l *loader) boolean(name string) *bool {
	value := l.env(name)
	if value == "" {
		return nil
	}
	is, err := strconv.ParseBool(value)
	if err != nil {
		l.warn("environment variable %s is %q: it is ignored, because it is neither true nor false",
			name, value)
		return nil
	}
	return &is
}

// labels returns labels such as a=b,c=d, and ignores everything else.
func (l *loader) labels(name string) labels.Set {
	value := l.env(name)
	if value == "" {
		return nil
	}
	found, err := labels.ConvertSelectorToLabelsMap(value)
	if err != nil {
		l.warn("environment variable %s is %q: it is ignored, because of %v", name, value, err)
	}
	return found
}
