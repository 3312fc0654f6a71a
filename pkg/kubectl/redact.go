package kubectl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// shortest is the length of the shortest value that is searched for in other objects. Shorter ones
// are words such as true.
const shortest = 6

// redactor removes values of Secrets from texts.
type redactor struct {
	values []string
	// replacer replaces the values; nil after a value was added.
	replacer *strings.Replacer
}

// add adds the values of a Secret: as they are, each line, and all confidential fields of a file.
func (r *redactor) add(data map[string][]byte) {
	// Conditions contain the address, names of OpenStack are often words, and a token of a
	// ServiceAccount is beside its namespace.
	public := regexp.MustCompile(`^(namespace|os-.*(URL|region|Name|ID|Insecure))$`)
	for key, value := range data {
		if public.MatchString(key) {
			continue
		}
		r.addValue(string(value))
		// In the backup of a rotation, namespace and name of a Secret precede the key.
		if !strings.HasSuffix(key, cloudsKey) && !strings.HasSuffix(key, confKey) {
			for line := range bytes.Lines(value) {
				r.addValue(string(bytes.TrimSpace(line)))
			}
		}
		var content any
		if yaml.Unmarshal(value, &content) == nil {
			eachText("", content, func(field, text string) string {
				if confidential().MatchString(field + ": x") {
					r.addValue(text)
				}
				return text
			})
		}
		r.addConfidential(value)
	}
}

func (r *redactor) addConfidential(file []byte) {
	for _, match := range confidential().FindAllSubmatch(file, -1) {
		r.addValue(string(bytes.Trim(match[1], `"' `)))
	}
}

// confidential matches the lines of clouds.yaml and clouds.conf that contain secrets.
func confidential() *regexp.Regexp {
	return regexp.MustCompile(`(?im)(?:password|secret|token|passcode)["']?\s*[:=]\s*(\S.*?)\s*$`)
}

// addValue adds a value: as it is, as base64, and as part of JSON and of a quoted text.
func (r *redactor) addValue(value string) {
	if len(value) < shortest {
		return
	}
	escaped, _ := json.Marshal(value) // texts cannot fail
	quoted := strconv.Quote(value)
	r.values = append(r.values, value, base64.StdEncoding.EncodeToString([]byte(value)),
		string(escaped[1:len(escaped)-1]), quoted[1:len(quoted)-1])
	r.replacer = nil
}

const hidden = "(redacted)"

// redact replaces values of Secrets, and the passwords in URLs such as those of proxies.
func (r *redactor) redact(text string) string {
	if r.replacer == nil {
		// Of the values at the same place, the longest is replaced.
		slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
		var pairs []string
		for _, value := range r.values {
			pairs = append(pairs, value, hidden)
		}
		r.replacer = strings.NewReplacer(pairs...)
	}
	return regexp.MustCompile(`(://)[^/@\s"']+@`).
		ReplaceAllString(r.replacer.Replace(text), "${1}"+hidden+"@")
}

// eachText replaces each text in the content of a file. The field is that of the text, or of the
// list with the text.
func eachText(field string, content any, replace func(field, text string) string) any {
	switch content := content.(type) {
	case map[string]any:
		for key, value := range content {
			content[key] = eachText(key, value, replace)
		}
	case []any:
		for i := range content {
			content[i] = eachText(field, content[i], replace)
		}
	case string:
		return replace(field, content)
	}
	return content
}

// write writes a file as YAML, without values of Secrets.
func (g *gathering) write(name string, content any) {
	var redacted any
	encoded, err := json.Marshal(content)
	if err == nil {
		err = utiljson.Unmarshal(encoded, &redacted) // keeps integers
	}
	if err == nil {
		// A value can be found only before YAML breaks it into lines.
		encoded, err = toYAML(eachText("", redacted, func(_, text string) string {
			return g.redact(text)
		}))
	}
	if err != nil {
		g.failed = cmp.Or(g.failed, fmt.Errorf("encoding %s: %w", name, err))
	}
	g.writeText(name, string(encoded))
}

func (g *gathering) writeText(name, text string) {
	if g.failed != nil {
		return
	}
	name = path.Join(g.dir, name)
	if g.failed = g.root.MkdirAll(path.Dir(name), 0o700); g.failed == nil {
		g.failed = g.root.WriteFile(name, []byte(text), 0o600)
	}
}

// logReader returns a log of a container.
type logReader func(
	ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions,
) ([]byte, error)

func newLogReader(config *rest.Config) (logReader, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) ([]byte, error) {
		return kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).DoRaw(ctx)
	}, nil
}

// The keys of cluster.hidden for logs that may not be read, or not be redacted.
const (
	hiddenLogs   = "logs"
	hiddenValues = "logs (values of Secrets are not known)"
)

// logTimeout limits the time for each log: the node of the pod may not answer.
const logTimeout = 30 * time.Second

// podLogs writes the logs of each container, and those of the containers before a restart.
func (g *gathering) podLogs(ctx context.Context, pod *corev1.Pod) {
	if g.hidden["Secrets"] {
		g.hidden[hiddenValues] = true
		return
	}
	restarts := map[string]int32{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		restarts[s.Name] = s.RestartCount
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !g.log(ctx, pod, c.Name, false) ||
			restarts[c.Name] > 0 && !g.log(ctx, pod, c.Name, true) {
			return
		}
	}
}

// log writes a log of a container. A log that cannot be read becomes a file with the error. It
// returns false if the node does not answer, or something failed.
func (g *gathering) log(
	ctx context.Context, pod *corev1.Pod, container string, previous bool,
) bool {
	if g.failed != nil {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	text, err := g.logs(limited, pod, &corev1.PodLogOptions{
		Container: container, Previous: previous, Timestamps: true, LimitBytes: ptr.To[int64](maxLog),
	})
	switch {
	case apierrors.IsForbidden(err):
		g.hidden[hiddenLogs] = true
		return false
	case ctx.Err() != nil:
		g.failed = ctx.Err()
		return false
	case err != nil:
		text = []byte("reading the log: " + err.Error() + "\n")
		if !apierrors.IsBadRequest(err) { // the container has no such log
			g.unread = append(g.unread, container+" of pod "+pod.Name)
		}
	}
	name := "current.log"
	if previous {
		name = "previous.log"
	}
	file := path.Join("namespaces", pod.Namespace, "pods", pod.Name, container, container, "logs",
		name)
	g.writeText(file, g.redact(string(text)))
	return limited.Err() == nil
}
