//go:build bench

package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	// settling is how long the operators may take to become idle.
	settling = 90 * time.Second
	// window is the period in which requests are counted, several times the longest interval.
	window = 2 * time.Minute
	// pollInterval is the interval of polls of OpenStack.
	pollInterval = time.Minute
)

// Assumed numbers and sizes of other objects in the namespace of a small hosted control plane.
const (
	otherDeployments = 60
	otherSecrets     = 120
	otherConfigMaps  = 80
	// bundles is the number of ConfigMaps with a trusted CA bundle.
	bundles = 8

	kilobyte = 1000
	// documentSize is the size of a Secret or ConfigMap, such as a key or a configuration file.
	documentSize = 5 * kilobyte
	bundleSize   = 220 * kilobyte
	// templateSize is the size of the arguments of a Deployment's container.
	templateSize = 8 * kilobyte
	// changing is the interval between changes of an object of each kind.
	changing = 5 * time.Second
)

// BenchmarkFleet runs the operators of many guest clusters on this machine. BENCH_GUESTS is a list
// of numbers of guest clusters, 20 by default. With one number it measures idle operators, also
// among other objects, and while these change. With several numbers it also measures a new release
// that starts in all guest clusters at the same moment, and for the last number how many operators
// log in within a second when all tokens expire, and when Keystone is down.
func BenchmarkFleet(b *testing.B) {
	sizes := strings.Split(cmp.Or(os.Getenv("BENCH_GUESTS"), "20"), ",")
	for i, size := range sizes {
		guests, err := strconv.Atoi(size)
		assert.NilError(b, err)
		b.Run(size, func(sub *testing.B) {
			s := newSite(sub, guests)
			management, guest := s.watches(s.places[0].ControlConfig()), s.watches(s.places[0].Config())
			started := time.Now()
			s.start("")
			s.await("the drivers are ready", s.ready)
			record(s, "seconds until all drivers are ready", time.Since(started).Seconds())
			s.reportSpread("logins after the first start", s.calls(isLogin))
			s.measurePods(b)
			idle := s.measureIdle(b, "alone")
			record(s, "watches of operators on the management API server",
				s.watches(s.places[0].ControlConfig())-management)
			s.Logf("watches of both operators on the API server of a guest cluster: %.0f",
				s.watches(s.places[0].Config())-guest)
			s.measureSums(idle)
			if len(sizes) == 1 {
				s.measureAmongOthers(b)
				return
			}
			s.release()
			if i == len(sizes)-1 {
				s.measureLogins()
			}
		})
	}
}

// watches returns the number of watches that an API server serves.
func (s *site) watches(config *rest.Config) (sum float64) {
	s.Helper()
	client, err := kubernetes.NewForConfig(config)
	s.must(err)
	text, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(s.Context())
	s.must(err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	s.must(err)
	for _, metric := range families["apiserver_longrunning_requests"].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "verb" && label.GetValue() == "WATCH" {
				sum += metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// measurePods reports the containers of the controller pods of a hosted control plane, without init
// containers that end, and the memory that they request.
func (s *site) measurePods(b *testing.B) {
	b.Helper()
	var containers, memory float64
	for _, r := range s.running[:len(operators())] {
		deployment, err := r.deployment(s.Context())
		s.must(err)
		pod := deployment.Spec.Template.Spec
		for _, c := range append(pod.Containers, slices.DeleteFunc(pod.InitContainers,
			func(c corev1.Container) bool {
				return ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways
			})...) {
			containers++
			memory += c.Resources.Requests.Memory().AsApproximateFloat64() / (1 << 20)
		}
	}
	report(b, "containers", containers, 0)
	report(b, "memory-requests-Mi", memory, 0)
}

// measureIdle reports the medians of the memory of one operator and the number of its requests, for
// the benchmark, so that runs with other numbers of guest clusters compare the same figures. It
// returns the requests.
func (s *site) measureIdle(b *testing.B, state string) []request {
	b.Helper()
	s.pause(settling)
	since := time.Now()
	s.pause(window)
	all := s.requests(since)
	perRequest := 1 / float64(len(s.places)) / window.Minutes()
	for _, program := range operators() {
		name := state + ": " + program
		for _, field := range []string{"Rss", "Anonymous"} {
			median, _ := s.memoryOf(program, field)
			report(b, name+"-"+field+"-MB", median, 0)
		}
		management, guest := bySide(slices.DeleteFunc(slices.Clone(all), func(r request) bool {
			return r.program != program
		}))
		report(b, name+"-management-requests/min", float64(len(management))*perRequest, perRequest)
		report(b, name+"-guest-requests/min", float64(len(guest))*perRequest, perRequest)
	}
	return all
}

// measureSums records the memory of all operators, and the number of their requests in the window.
func (s *site) measureSums(idle []request) {
	s.Helper()
	for _, field := range []string{"Rss", "Pss", "Anonymous"} {
		median, sum := s.memoryOf("", field)
		s.Logf("%s of an operator, median: %.1f MB", field, median)
		record(s, field+" of all operators in MB", sum)
	}
	management, guest := bySide(idle)
	record(s, "requests per minute to the management API server",
		float64(len(management))/window.Minutes())
	record(s, "requests per minute to all guest API servers", float64(len(guest))/window.Minutes())
	s.Logf("at most %d requests a second to the management API server", peak(management))
}

// peak sorts times, and returns the largest number of them within one second.
func peak(times []time.Time) int {
	slices.SortFunc(times, time.Time.Compare)
	most, first := 0, 0
	for i, last := range times {
		for last.Sub(times[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// measureAmongOthers creates other objects in the namespaces of the hosted control planes, and then
// changes one of each kind in each namespace periodically.
func (s *site) measureAmongOthers(b *testing.B) {
	b.Helper()
	for _, p := range s.places {
		namespace := p.Operators[0].Namespace
		s.each(otherDeployments, func(ctx context.Context, i int) error {
			return p.control.Create(ctx, otherDeployment(namespace, name(i)))
		})
		s.each(otherSecrets, func(ctx context.Context, i int) error {
			return p.control.Create(ctx, otherSecret(namespace, name(i)))
		})
		s.each(otherConfigMaps+bundles, func(ctx context.Context, i int) error {
			size := documentSize
			if i >= otherConfigMaps {
				size = bundleSize
			}
			return p.control.Create(ctx, otherConfigMap(namespace, name(i), size))
		})
	}
	s.measureIdle(b, "crowded")
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- wait.PollUntilContextCancel(ctx, changing, false, s.change) }()
	s.measureIdle(b, "busy")
	cancel()
	assert.ErrorIs(s, <-ended, context.Canceled)
}

func name(i int) string { return fmt.Sprintf("other-%d", i) }

func text(size int) string { return strings.Repeat("x", size) }

func otherSecret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"tls.key": []byte(text(documentSize))},
	}
}

func otherConfigMap(namespace, name string, size int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string]string{"content": text(size)},
	}
}

// otherDeployment returns a Deployment without pods, which the operators do not read.
func otherDeployment(namespace, name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  "main",
					Image: "example.com/other", Args: []string{text(templateSize)},
				}}},
			},
		},
	}
}

// change changes an object of each kind in each namespace. It is never done.
func (s *site) change(ctx context.Context) (done bool, _ error) {
	patch := client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{"changed":%q}}}`, time.Now()))
	for _, p := range s.places {
		meta := metav1.ObjectMeta{Namespace: p.Operators[0].Namespace, Name: name(0)}
		for _, one := range []client.Object{
			&appsv1.Deployment{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: meta},
			&corev1.ConfigMap{ObjectMeta: meta},
		} {
			if err := p.control.Patch(ctx, one, patch); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// release starts the operators of another release in all guest clusters at the same moment.
func (s *site) release() {
	s.Helper()
	s.stop()
	s.cloud.ResetLog()
	since := time.Now()
	s.start(nextRelease)
	s.await("all workloads have the new release", s.reached(func(w workload) bool {
		return w.isNext && w.isCurrent
	}))
	record(s, "seconds until a release is rolled out", time.Since(since).Seconds())
	s.reportSpread("logins of a release", s.calls(isLogin))
	all := s.requests(since)
	management, guest := bySide(all)
	s.reportSpread("requests of a release to the management API server", management)
	s.reportSpread("requests of a release to all guest API servers", guest)
	s.logRequests("of a release", all)
}

// measureLogins measures whether operators that started at the same moment poll at the same moment,
// and their logins after all tokens have expired, while Keystone fails, and afterwards.
func (s *site) measureLogins() {
	s.Helper()
	s.pause(2 * pollInterval)
	var fault simulator.Fault
	for _, step := range []struct {
		what   string
		change func() error
		lasts  time.Duration
		counts func(simulator.Request) bool
	}{
		{
			"requests to OpenStack in an interval", func() error { return nil }, pollInterval,
			func(simulator.Request) bool { return true },
		},
		{"logins after all tokens expired", func() error {
			return s.cloud.ExpireTokens(s.Context())
		}, pollInterval * 5 / 4, isLogin},
		{"logins without Keystone", func() (err error) {
			fault, err = s.cloud.SetFault(simulator.Fault{
				Mode: simulator.Status, Status: http.StatusServiceUnavailable, Service: simulator.Identity,
			})
			return cmp.Or(err, s.cloud.ExpireTokens(s.Context()))
		}, 2 * pollInterval, isLogin},
		{"logins after the outage", func() error {
			return s.cloud.ClearFaults(fault.ID)
		}, pollInterval * 5 / 4, isLogin},
	} {
		s.cloud.ResetLog()
		s.must(step.change())
		s.pause(step.lasts)
		s.reportSpread(step.what, s.calls(step.counts))
	}
}

// isLogin returns whether a request is one for a token.
func isLogin(r simulator.Request) bool {
	return r.Service == simulator.Identity && r.Method == http.MethodPost
}

// calls returns the times of the requests to OpenStack since the last reset of the log.
func (s *site) calls(selects func(simulator.Request) bool) []time.Time {
	var times []time.Time
	for _, r := range s.cloud.Log() {
		if selects(r) {
			times = append(times, r.Time)
		}
	}
	return times
}

// reportSpread records how many requests there were, and how they spread.
func (s *site) reportSpread(what string, times []time.Time) {
	s.Helper()
	record(s, what+" in the busiest second", float64(peak(times))) // sorts
	record(s, what, float64(len(times)))
	if len(times) > 0 {
		s.Logf("%s: within %v", what, times[len(times)-1].Sub(times[0]).Round(time.Second/10))
	}
}
