//go:build bench

package bench

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/devcluster/readiness"
)

const (
	// rounds is how often a start is measured.
	rounds = 3
	// poll is the precision of the times.
	poll = 20 * time.Millisecond
	// stopping is how long an operator may take to end.
	stopping = 30 * time.Second
)

// BenchmarkStart reports how long an operator takes from its start in an empty cluster until all
// *Available conditions are True, and from the start of another release until all workloads have
// its image. No other operator runs.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		times := map[string][]float64{}
		for range rounds {
			measureStarts(b, times)
		}
		for name, seconds := range times {
			slices.Sort(seconds)
			record(b, name, seconds[len(seconds)/2])
		}
	}
}

// measureStarts adds the times in a new cluster.
func measureStarts(b *testing.B, times map[string][]float64) {
	b.Helper()
	all, err := fixtures.Operators([]string{"manila", "cinder"})
	must(b, err)
	c, err := cluster.Start(b.Context(), cluster.Options{
		Dir: paths.Dir(b.TempDir()), Binaries: os.Getenv("K8S_BIN_DIR"), Operators: all,
		Progress: io.Discard,
	})
	must(b, err)
	defer c.Stop()
	environment := c.Environments()[0]
	config := rest.CopyConfig(environment.Config())
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	must(b, err)
	operators, err := operatorclient.NewForConfig(config)
	must(b, err)
	s := starter{kube: kube, operators: operators}
	for _, o := range environment.Operators {
		s.Runner = operator.Runner{
			Operator: o, Dir: environment.Dir, Bin: programs(), Env: o.Env(),
		}
		const image = "registry.example/driver:new"
		start := s.measure(b, s.available)
		for i, variable := range s.Env {
			if name, _, _ := strings.Cut(variable, "="); strings.HasSuffix(name, "DRIVER_IMAGE") {
				s.Env[i] = name + "=" + image
			}
		}
		upgrade := s.measure(b, func(ctx context.Context) (bool, error) { return s.use(ctx, image) })
		times[o.Program+"-start-s"] = append(times[o.Program+"-start-s"], start)
		times[o.Program+"-upgrade-s"] = append(times[o.Program+"-upgrade-s"], upgrade)
	}
}

// starter starts an operator.
type starter struct {
	operator.Runner

	kube      kubernetes.Interface
	operators operatorclient.Interface
}

// measure returns the seconds from the start of the operator until done, and then waits until it is
// available, and ends it.
func (s starter) measure(b *testing.B, done wait.ConditionWithContextFunc) float64 {
	b.Helper()
	start := time.Now()
	running, err := process.Start(process.Options{
		Name: s.Name(), Path: s.Path(), Args: s.Args(), Env: s.Environment(), Log: s.Log(),
	})
	must(b, err)
	defer running.Stop(stopping)
	ctx, cancel := context.WithTimeout(b.Context(), stepBound)
	defer cancel()
	must(b, wait.PollUntilContextCancel(ctx, poll, true, done))
	seconds := time.Since(start).Seconds()
	must(b, wait.PollUntilContextCancel(ctx, poll, true, s.available))
	return seconds
}

// available returns whether the driver is available, and its workloads do not progress.
func (s starter) available(ctx context.Context) (bool, error) {
	driver, err := s.operators.OperatorV1().ClusterCSIDrivers().
		Get(ctx, s.Operator.ClusterCSIDriver, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	found := readiness.Of(driver.Status.Conditions)
	return found.Available(len(s.Operator.Workloads)) == nil, nil
}

// use returns whether all workloads with the driver use the image.
func (s starter) use(ctx context.Context, image string) (bool, error) {
	deployments, err := s.kube.AppsV1().Deployments(s.Operator.OperandNamespace).
		List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	daemonSets, err := s.kube.AppsV1().DaemonSets(s.Operator.OperandNamespace).
		List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	pods := map[string]corev1.PodSpec{}
	for _, d := range deployments.Items {
		pods[d.Name] = d.Spec.Template.Spec
	}
	for _, d := range daemonSets.Items {
		pods[d.Name] = d.Spec.Template.Spec
	}
	return !slices.ContainsFunc(s.Operator.Workloads, func(workload string) bool {
		return !slices.ContainsFunc(pods[workload].Containers, func(c corev1.Container) bool {
			return c.Image == image
		})
	}), nil
}
