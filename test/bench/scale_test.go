//go:build bench

package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	otherClasses  = 5000
	otherObjects  = 5000 // ConfigMaps, and as many Secrets
	otherNodes    = 2000
	zones         = 300
	shareTypes    = 5000
	manilaClasses = 1000 // of the share types
	// calm is how long the operators may take to become idle after a step.
	calm = 20 * time.Second

	manilaDriver = "manila.csi.openstack.org"
)

// TestScale measures what large numbers of objects, nodes, zones and share types cost the operators
// of a standalone cluster: time, memory, and requests to the API server.
func TestScale(t *testing.T) { //nolint:paralleltest // it measures
	s := &large{site: newSite(t, 0)}
	s.client = s.places[0].guest
	s.step("start in an empty cluster", func() { s.start("") }, s.ready)
	s.step(fmt.Sprintf("%d StorageClasses of others", otherClasses), s.addClasses, nil)
	s.step(fmt.Sprintf("%d ConfigMaps and Secrets of others", otherObjects), s.addObjects, nil)
	s.step(fmt.Sprintf("%d zones", zones), s.addZones, s.probed)
	s.step(fmt.Sprintf("%d share types", shareTypes), s.addShareTypes, s.served)
	s.step("restart", s.restart, s.ready)
	s.step(fmt.Sprintf("%d nodes", otherNodes), s.addNodes,
		s.reached(func(w workload) bool { return w.isCurrent && w.nodes >= otherNodes }))
	s.step("restart with all nodes", s.restart, s.ready)
}

// large is a standalone site with many objects.
type large struct {
	*site

	client client.Client
	// changed is when the last step began.
	changed time.Time
}

// step changes the cluster, waits until the operators have done what the change requires, and logs
// the time, the memory and the requests. It also logs the requests of a minute without changes.
func (s *large) step(name string, change func(), done wait.ConditionWithContextFunc) {
	s.Helper()
	for _, r := range s.running {
		// Linux sets the peak of the resident memory to the current value.
		s.must(os.WriteFile(r.proc("clear_refs"), []byte("5"), 0))
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
	for _, r := range s.running {
		program := r.Program
		resident := s.megabytes(r, "smaps_rollup", "Rss")
		anonymous := s.megabytes(r, "smaps_rollup", "Anonymous")
		most := s.megabytes(r, "status", "VmHWM")
		sent, writes := count(during, program)
		perMinute, _ := count(s.requests(idle), program)
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

func (s *large) addClasses() {
	s.each(otherClasses, func(ctx context.Context, i int) error {
		return s.client.Create(ctx, &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: name(i)},
			Provisioner: "example.com/other", Parameters: map[string]string{"content": text(kilobyte)},
		})
	})
}

// addObjects creates ConfigMaps and Secrets in the namespace of the operators, and in that of the
// ConfigMaps of administrators.
func (s *large) addObjects() {
	namespaces := []string{s.places[0].Operators[0].Namespace, "openshift-config"}
	s.each(otherObjects, func(ctx context.Context, i int) error {
		namespace := namespaces[i%len(namespaces)]
		return cmp.Or(s.client.Create(ctx, otherConfigMap(namespace, name(i), documentSize)),
			s.client.Create(ctx, otherSecret(namespace, name(i))))
	})
}

func (s *large) addZones() {
	var all []simulator.Zone
	for i := range zones {
		all = append(all, simulator.Zone{Name: fmt.Sprintf("zone-%03d", i)})
	}
	s.cloud.ResetLog()
	s.must(s.cloud.SetZones(simulator.Compute, all...))
	s.must(s.cloud.SetZones(simulator.Volume, all...))
}

// probed returns whether the Cinder operator has listed the zones three times, after which it would
// change the topology.
func (s *large) probed(context.Context) (bool, error) {
	lists := s.cloud.Counters().Calls["GET /volume/v3/os-availability-zone"]
	return lists >= 3, nil
}

func (s *large) addShareTypes() {
	for i := range shareTypes {
		s.must(s.cloud.AddShareType(simulator.ShareType{Name: fmt.Sprintf("type-%04d", i)}))
	}
}

// served returns whether there are StorageClasses for as many share types as the operator serves,
// and whether a condition reports the others.
func (s *large) served(ctx context.Context) (bool, error) {
	list, driver := &storagev1.StorageClassList{}, &opv1.ClusterCSIDriver{}
	err := cmp.Or(s.client.List(ctx, list),
		s.client.Get(ctx, client.ObjectKey{Name: manilaDriver}, driver))
	if err != nil {
		return false, err
	}
	found := 0
	for i := range list.Items {
		if list.Items[i].Provisioner == manilaDriver {
			found++
		}
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
	s.start("")
}

// addNodes creates Nodes like an existing worker, which kwok simulates.
func (s *large) addNodes() {
	list := &corev1.NodeList{}
	s.must(s.client.List(s.Context(), list, client.HasLabels{"node-role.kubernetes.io/worker"}))
	worker := list.Items[0]
	s.each(otherNodes, func(ctx context.Context, i int) error {
		labels := map[string]string{}
		for key, value := range worker.Labels {
			labels[key] = strings.ReplaceAll(value, worker.Name, name(i))
		}
		return s.client.Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name(i), Labels: labels, Annotations: worker.Annotations,
			},
			Status: corev1.NodeStatus{
				Capacity: worker.Status.Capacity, Allocatable: worker.Status.Allocatable,
			},
		})
	})
}
