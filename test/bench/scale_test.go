//go:build bench

package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	opv1 "github.com/openshift/api/operator/v1"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	otherClasses  = 5000
	otherObjects  = 5000 // ConfigMaps, and as many Secrets
	otherNodes    = 2000
	zones         = 300
	shareTypes    = 5000
	manilaClasses = 1000 // of the share types
	// creators is the number of requests of the test at the same time.
	creators = 16
	// calm is how long the operators may take to become idle after a step.
	calm = 20 * time.Second

	manilaDriver = "manila.csi.openstack.org"
)

// TestScale measures what large numbers of objects, nodes, zones and share types cost the operators
// of a standalone cluster: time, memory, and requests to the API server.
func TestScale(t *testing.T) { //nolint:paralleltest // it measures
	s := newLarge(t)
	s.step("start in an empty cluster", func() { s.start(unchanged) }, s.ready)
	s.step(fmt.Sprintf("%d StorageClasses of others", otherClasses), s.addClasses, nil)
	s.step(fmt.Sprintf("%d ConfigMaps and Secrets of others", otherObjects), s.addObjects, nil)
	s.step(fmt.Sprintf("%d zones", zones), s.addZones, s.probed)
	s.step(fmt.Sprintf("%d share types", shareTypes), s.addShareTypes, s.served)
	s.step("restart", s.restart, s.ready)
	s.step(fmt.Sprintf("%d nodes", otherNodes), s.addNodes, s.covered)
	s.step("restart with all nodes", s.restart, s.ready)
}

// large is a standalone site with many objects.
type large struct {
	*site

	kube    kubernetes.Interface
	drivers operatorclient.Interface
	// changed is when the last step began.
	changed time.Time
}

func newLarge(t *testing.T) *large {
	t.Helper()
	s := &large{site: newSite(t, 0)}
	config := s.cluster.Environments()[0].Config()
	config.QPS = -1
	var err error
	s.kube, err = kubernetes.NewForConfig(config)
	s.must(err)
	s.drivers, err = operatorclient.NewForConfig(config)
	s.must(err)
	return s
}

// step changes the cluster, waits until the operators have done what the change requires, and logs
// the time, the memory and the requests. It also logs the requests of a minute without changes.
func (s *large) step(name string, change func(), done wait.ConditionWithContextFunc) {
	s.Helper()
	for _, p := range s.processes {
		// Linux sets the peak of the resident memory to the current value.
		s.must(os.WriteFile(s.proc(p, "clear_refs"), []byte("5"), 0))
	}
	s.changed = time.Now()
	change()
	if done != nil {
		s.await(name, done)
	}
	took := time.Since(s.changed)
	s.pause(calm)
	during := s.requests(s.changed)
	s.logRequests("of "+name, during)
	idle := time.Now()
	s.pause(time.Minute)
	s.Logf("%s: %v", name, took.Round(time.Second/10))
	for i, program := range operators() {
		resident, _ := s.memoryOf(program, "Rss")
		anonymous, _ := s.memoryOf(program, "Anonymous")
		sent, writes := count(during, program)
		perMinute, _ := count(s.requests(idle), program)
		most := s.peakOf(s.processes[i])
		record(s, fmt.Sprintf("%s: %s-Rss-MB", name, program), resident)
		record(s, fmt.Sprintf("%s: %s-most-Rss-MB", name, program), most)
		s.Logf("| %s | %s | %.0f (%.0f) MB, at most %.0f | %d, %d of them writes | %d |", name, program,
			resident, anonymous, most, sent, writes, perMinute)
	}
}

func count(all []request, program string) (sent, writes int) {
	for _, one := range all {
		if one.program == program {
			sent++
			if one.writes {
				writes++
			}
		}
	}
	return sent, writes
}

func (s *large) proc(p *process.Process, file string) string {
	return filepath.Join("/proc", strconv.Itoa(p.PID()), file)
}

// peakOf returns the most resident memory of a process in MB since the begin of the step.
func (s *large) peakOf(p *process.Process) float64 {
	s.Helper()
	text, err := os.ReadFile(s.proc(p, "status"))
	s.must(err)
	_, after, _ := bytes.Cut(text, []byte("\nVmHWM:"))
	var kilobytes float64
	_, err = fmt.Sscan(string(after), &kilobytes)
	s.must(err)
	return kilobytes / kilobyte
}

// each calls a function for many numbers, several at the same time.
func (s *large) each(n int, do func(context.Context, int) error) {
	s.Helper()
	group, ctx := errgroup.WithContext(s.Context())
	group.SetLimit(creators)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	s.must(group.Wait())
}

func (s *large) addClasses() {
	s.each(otherClasses, func(ctx context.Context, i int) error {
		_, err := s.kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: name(i)},
			Provisioner: "example.com/other", Parameters: map[string]string{"content": text(kilobyte)},
		}, metav1.CreateOptions{})
		return err
	})
}

// addObjects creates ConfigMaps and Secrets in the namespace of the operators, and in that of the
// ConfigMaps of administrators.
func (s *large) addObjects() {
	namespaces := []string{s.cluster.Environments()[0].Operators[0].Namespace, "openshift-config"}
	s.each(otherObjects, func(ctx context.Context, i int) error {
		namespace := namespaces[i%len(namespaces)]
		_, err := s.kube.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name(i)},
			Data:       map[string]string{"content": text(documentSize)},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		_, err = s.kube.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name(i)},
			Data:       map[string][]byte{"content": []byte(text(documentSize))},
		}, metav1.CreateOptions{})
		return err
	})
}

func (s *large) addZones() {
	var all []simulator.Zone
	for i := range zones {
		all = append(all, simulator.Zone{Name: fmt.Sprintf("zone-%03d", i)})
	}
	s.cluster.Cloud().ResetLog()
	s.must(s.cluster.Cloud().SetZones(simulator.Compute, all...))
	s.must(s.cluster.Cloud().SetZones(simulator.Volume, all...))
}

// probed returns whether the Cinder operator has listed the zones three times, after which it would
// change the topology.
func (s *large) probed(context.Context) (bool, error) {
	lists := s.cluster.Cloud().Counters().Calls["GET /volume/v3/os-availability-zone"]
	return lists >= 3, nil
}

func (s *large) addShareTypes() {
	for i := range shareTypes {
		s.must(s.cluster.Cloud().AddShareType(simulator.ShareType{Name: fmt.Sprintf("type-%04d", i)}))
	}
}

// served returns whether there are StorageClasses for as many share types as the operator serves,
// and whether a condition reports the others.
func (s *large) served(ctx context.Context) (bool, error) {
	list, err := s.kube.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	found := 0
	for i := range list.Items {
		if list.Items[i].Provisioner == manilaDriver {
			found++
		}
	}
	driver, err := s.drivers.OperatorV1().ClusterCSIDrivers().
		Get(ctx, manilaDriver, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	served := v1helpers.FindOperatorCondition(driver.Status.Conditions, "ManilaShareTypesServed")
	if found < manilaClasses || served == nil || served.Status != opv1.ConditionFalse {
		return false, nil
	}
	if found > manilaClasses {
		return false, fmt.Errorf("%d StorageClasses for share types", found)
	}
	s.Logf("%s: %s", served.Reason, served.Message)
	return true, nil
}

func (s *large) restart() {
	s.stop()
	s.changed = time.Now()
	s.start(unchanged)
}

// addNodes creates Nodes like an existing worker, which kwok simulates.
func (s *large) addNodes() {
	list, err := s.kube.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{
		LabelSelector: "node-role.kubernetes.io/worker",
	})
	s.must(err)
	worker := list.Items[0]
	s.each(otherNodes, func(ctx context.Context, i int) error {
		labels := map[string]string{}
		for key, value := range worker.Labels {
			labels[key] = strings.ReplaceAll(value, worker.Name, name(i))
		}
		_, err := s.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name(i), Labels: labels, Annotations: worker.Annotations,
			},
			Status: corev1.NodeStatus{
				Capacity: worker.Status.Capacity, Allocatable: worker.Status.Allocatable,
			},
		}, metav1.CreateOptions{})
		return err
	})
}

// covered returns whether all nodes run the pods of all DaemonSets.
func (s *large) covered(ctx context.Context) (bool, error) {
	o := s.cluster.Environments()[0].Operators
	for i := range o {
		for _, name := range o[i].Workloads[1:] {
			d, err := s.kube.AppsV1().DaemonSets(o[i].OperandNamespace).
				Get(ctx, name, metav1.GetOptions{})
			if err != nil || d.Status.DesiredNumberScheduled < otherNodes ||
				d.Status.ObservedGeneration != d.Generation ||
				d.Status.UpdatedNumberScheduled < d.Status.DesiredNumberScheduled ||
				d.Status.NumberReady < d.Status.DesiredNumberScheduled {
				return false, err
			}
		}
	}
	return true, nil
}
