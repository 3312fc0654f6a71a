package kubectl

import (
	"bytes"
	"context"
	"encoding/base64"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// shortest is the length of the shortest value that is searched for in other objects. Shorter ones
// are words such as true.
const shortest = 6

// redactor removes values of Secrets from texts.
type redactor struct{ values [][]byte }

// add adds the values of a Secret: as they are, each line, base64, and all strings of a YAML file.
func (r *redactor) add(data map[string][]byte) {
	public := regexp.MustCompile(`^os-.*(URL|region|Name|ID|Insecure)$`)
	for key, value := range data {
		if public.MatchString(key) {
			continue // conditions contain the address, and names of OpenStack are often words
		}
		r.addValue(value)
		if key != cloudsKey && key != confKey {
			for line := range bytes.Lines(value) {
				r.addValue(bytes.TrimSpace(line))
			}
			continue
		}
		var content any
		if yaml.Unmarshal(value, &content) == nil {
			r.addStrings("", content)
		}
		for _, match := range confidential().FindAllSubmatch(value, -1) {
			r.addValue(bytes.Trim(match[1], `"' `))
		}
	}
	// A value that is part of another one is replaced after it.
	slices.SortFunc(r.values, func(a, b []byte) int { return len(b) - len(a) })
}

// confidential matches the lines of clouds.yaml and clouds.conf that contain secrets.
func confidential() *regexp.Regexp {
	return regexp.MustCompile(`(?im)(?:password|secret|token|passcode)["']?\s*[:=]\s*(\S.*?)\s*$`)
}

// addStrings adds the strings of confidential fields.
func (r *redactor) addStrings(field string, content any) {
	switch content := content.(type) {
	case map[string]any:
		for key, value := range content {
			r.addStrings(key, value)
		}
	case []any:
		for _, value := range content {
			r.addStrings(field, value)
		}
	case string:
		if confidential().MatchString(field + ": x") {
			r.addValue([]byte(content))
		}
	}
}

func (r *redactor) addValue(value []byte) {
	if len(value) < shortest {
		return
	}
	r.values = append(r.values, value, []byte(base64.StdEncoding.EncodeToString(value)))
}

// redact replaces values of Secrets, and the passwords in URLs such as those of proxies.
func (r *redactor) redact(text []byte) []byte {
	const hidden = "(redacted)"
	for _, value := range r.values {
		text = bytes.ReplaceAll(text, value, []byte(hidden))
	}
	return regexp.MustCompile(`(://)[^/@\s"']+@`).ReplaceAll(text, []byte("${1}"+hidden+"@"))
}

// logReader returns a log of a container.
type logReader func(
	ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions,
) ([]byte, error)

// newLogReader returns a function that reads logs from an API server.
func newLogReader(config *rest.Config) (logReader, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) ([]byte, error) {
		return kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).DoRaw(ctx)
	}, nil
}

// logTimeout limits the time for each log: the node of the pod may not answer.
const logTimeout = 30 * time.Second

// podLogs writes the logs of each container, and those of the containers before a restart.
func (g *gathering) podLogs(ctx context.Context, pod *corev1.Pod) error {
	if g.hidden["Secrets"] {
		g.hidden["logs (values of Secrets are not known)"] = true
		return nil
	}
	restarts := map[string]int32{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		restarts[s.Name] = s.RestartCount
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		answers, err := g.log(ctx, pod, c.Name, false)
		if err == nil && answers && restarts[c.Name] > 0 {
			answers, err = g.log(ctx, pod, c.Name, true)
		}
		if err != nil || !answers {
			return err
		}
	}
	return nil
}

// log writes a log of a container. A log that cannot be read becomes a file with the error. It
// returns false if the node does not answer.
func (g *gathering) log(
	ctx context.Context, pod *corev1.Pod, container string, previous bool,
) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	text, err := g.logs(limited, pod, &corev1.PodLogOptions{
		Container: container, Previous: previous, Timestamps: true, LimitBytes: ptr.To[int64](maxLog),
	})
	switch {
	case apierrors.IsForbidden(err):
		g.hidden["logs"] = true
		return false, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		text = []byte("reading the log: " + err.Error() + "\n")
	}
	name := "current.log"
	if previous {
		name = "previous.log"
	}
	file := filepath.Join("namespaces", pod.Namespace, "pods", pod.Name, container, container, "logs",
		name)
	return limited.Err() == nil, g.writeText(file, text)
}
