package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	opv1 "github.com/openshift/api/operator/v1"
	operatorfake "github.com/openshift/client-go/operator/clientset/versioned/fake"
)

func class(name, shareType string) storagev1.StorageClass {
	return storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Parameters: map[string]string{"type": shareType},
	}
}

func readyState() State {
	return State{
		Driver: Driver{Title: "manila", PerShareType: true},
		Conditions: []opv1.OperatorCondition{
			{Type: "ManilaControllerAvailable", Status: "True"},
			{Type: "NFSAvailable", Status: "True"},
			{Type: "NFSDegraded", Status: "False"},
		},
		Workloads: []Workload{
			{Kind: "Deployment", Name: "controller", Ready: 2, Desired: 2, RolledOut: true},
			{Kind: "DaemonSet", Name: "node", Ready: 5, Desired: 5, RolledOut: true},
		},
		Classes: []storagev1.StorageClass{class("csi-manila-default", "default")},
	}
}

func readySnapshot() Snapshot { return Snapshot{readyState()} }

// readyBoth returns two drivers that report a condition of the same type.
func readyBoth() Snapshot {
	return Snapshot{readyState(), {
		Driver:     Driver{Title: "cinder", Classes: []string{"standard-csi"}},
		Conditions: []opv1.OperatorCondition{{Type: "NFSAvailable", Status: "True"}},
		Workloads: []Workload{
			{Kind: "Deployment", Name: "controller", Ready: 2, Desired: 2, RolledOut: true},
		},
		Classes: []storagev1.StorageClass{class("standard-csi", "")},
	}}
}

// hostedState returns a driver that is ready in both clusters.
func hostedState() State {
	return State{
		Driver: Driver{
			Title: "manila", Name: "manila.example", Namespace: "driver",
			Controller: "controller", ControlPlaneNamespace: "clusters-g",
		},
		Conditions: []opv1.OperatorCondition{{Type: "NFSAvailable", Status: "True"}},
		Workloads: []Workload{
			{
				Kind: "Deployment", Name: "controller", Ready: 1, Desired: 1, RolledOut: true,
				Cluster: management,
			},
			{Kind: "DaemonSet", Name: "node", Ready: 2, Desired: 2, RolledOut: true, Cluster: guest},
		},
	}
}

func TestMissingNamesWhatIsNotReady(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*State)
		types  []string
		want   []string
	}{
		"ready": {change: func(*State) {}, types: []string{"default"}},
		"no condition": {
			change: func(s *State) { s.Conditions = nil },
			want:   []string{"no Available condition is True"},
		},
		"one not available": {
			change: func(s *State) {
				s.Conditions[1] = opv1.OperatorCondition{
					Type: "NFSAvailable", Status: "False", Reason: "Waiting", Message: "soon",
				}
			},
			want: []string{"condition NFSAvailable=False Waiting: soon"},
		},
		"disabled whatever its status": {
			change: func(s *State) {
				s.Conditions = append(s.Conditions,
					opv1.OperatorCondition{Type: "ManilaControllerDisabled", Status: "False"})
			},
			want: []string{"condition ManilaControllerDisabled=False"},
		},
		"degraded": {
			change: func(s *State) { s.Conditions[2].Status = "True" },
			want:   []string{"condition NFSDegraded=True"},
		},
		"no workloads": {
			change: func(s *State) { s.Workloads = nil },
			want:   []string{"there are no workloads"},
		},
		"rolling out": {
			change: func(s *State) { s.Workloads[0].RolledOut, s.Workloads[0].Ready = false, 1 },
			want:   []string{"Deployment controller 1/2 rolling out"},
		},
		"a share type without class": {
			change: func(*State) {},
			types:  []string{"default", "Fast"},
			want:   []string{`no StorageClass for share type "Fast"`},
		},
		"share types do not matter to the driver": {
			change: func(s *State) { s.Driver.PerShareType = false },
			types:  []string{"default", "Fast"},
		},
		"a class of a fixed name": {
			change: func(s *State) { s.Driver.Classes = []string{"standard-csi"} },
			want:   []string{"no StorageClass standard-csi"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := readySnapshot()
			test.change(&s[0])
			if diff := cmp.Diff(test.want, s.Missing(test.types)); diff != "" {
				t.Errorf("Missing (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDisplayPrintsOnlyChanges(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	display := NewDisplay(&out)
	s := readySnapshot()
	display.Show(s.Lines())
	display.Show(s.Lines())
	if got := strings.Count(out.String(), "\n"); got != len(s.Lines()) {
		t.Errorf("two equal snapshots gave %d lines, want %d:\n%s", got, len(s.Lines()), out.String())
	}
	out.Reset()
	changed := readySnapshot()
	changed[0].Workloads[1].Ready = 4
	changed[0].Classes = nil
	display.Show(changed.Lines())
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		_, text, _ := strings.Cut(line, "s ")
		got = append(got, text)
	}
	want := []string{
		"DaemonSet node 4/5", `gone: StorageClass csi-manila-default for share type "default"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestMissingNamesDriver(t *testing.T) {
	t.Parallel()
	s := readyBoth()
	if missing := s.Missing([]string{"default"}); len(missing) > 0 {
		t.Errorf("missing are %q", missing)
	}
	s[0].Conditions[1].Status, s[1].Classes = "False", nil
	want := []string{"manila: condition NFSAvailable=False", "cinder: no StorageClass standard-csi"}
	if diff := cmp.Diff(want, s.Missing([]string{"default"})); diff != "" {
		t.Errorf("Missing (-want +got):\n%s", diff)
	}
}

func TestDisplayDistinguishesDrivers(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	display := NewDisplay(&out)
	display.Show(readyBoth().Lines())
	out.Reset()
	changed := readyBoth()
	changed[0].Workloads = changed[0].Workloads[1:]
	changed[1].Conditions[0].Status = "False"
	display.Show(changed.Lines())
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{"cinder: condition NFSAvailable=False", "gone: manila: Deployment controller 2/2"}
	for i := range got {
		_, got[i], _ = strings.Cut(got[i], "s ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestMissingNamesCluster(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		workloads func([]Workload) []Workload
		want      []string
	}{
		"ready": {workloads: func(w []Workload) []Workload { return w }},
		"nothing": {
			workloads: func([]Workload) []Workload { return nil }, want: []string{"there are no workloads"},
		},
		"no control": {
			workloads: func(w []Workload) []Workload { return w[1:] },
			want:      []string{"no Deployment controller in the management cluster"},
		},
		"no node part": {
			workloads: func(w []Workload) []Workload { return w[:1] },
			want:      []string{"there are no workloads in the guest cluster"},
		},
		"rolling out": {
			workloads: func(w []Workload) []Workload { w[0].RolledOut = false; return w },
			want:      []string{"Deployment controller 1/1 rolling out (management)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := hostedState()
			s.Workloads = test.workloads(s.Workloads)
			if diff := cmp.Diff(test.want, Snapshot{s}.Missing(nil)); diff != "" {
				t.Errorf("Missing (-want +got):\n%s", diff)
			}
		})
	}
}

// The control plane namespace contains the controllers of many drivers.
func TestSnapshotKeepsClustersApart(t *testing.T) {
	t.Parallel()
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	source := Source{
		drivers:   []Driver{hostedState().Driver},
		operators: operatorfake.NewClientset(),
		cluster: fake.NewClientset(
			&appsv1.Deployment{ObjectMeta: named("driver", "another")},
			&appsv1.DaemonSet{ObjectMeta: named("driver", "node")},
			&appsv1.DaemonSet{ObjectMeta: named("elsewhere", "node")},
		),
		management: fake.NewClientset(
			&appsv1.Deployment{ObjectMeta: named("clusters-g", "controller")},
			&appsv1.Deployment{ObjectMeta: named("clusters-g", "the-operator")},
		),
	}
	now, err := source.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Deployment controller 0/1 rolling out (management)",
		"Deployment another 0/1 rolling out (guest)", "DaemonSet node 0/0 rolling out (guest)",
	}
	if diff := cmp.Diff(want, now.Lines()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
