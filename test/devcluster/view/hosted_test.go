package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// hostedState is ready, on both sides.
func hostedState() State {
	return State{
		Driver: Driver{
			Title: "manila", Name: "manila.example", Namespace: "driver", Controller: "controller", ControlPlaneNamespace: "clusters-g",
		},
		Conditions: []Condition{{Type: "NFSAvailable", Status: "True"}},
		Workloads: []Workload{
			{Kind: "Deployment", Name: "controller", Ready: 1, Desired: 1, RolledOut: true, Side: Management},
			{Kind: "DaemonSet", Name: "node", Ready: 2, Desired: 2, RolledOut: true, Side: Guest},
		},
	}
}

func TestMissingOfEachSide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		workloads func([]Workload) []Workload
		want      []string
	}{
		"ready":        {workloads: func(w []Workload) []Workload { return w }},
		"nothing":      {workloads: func([]Workload) []Workload { return nil }, want: []string{"there are no workloads"}},
		"no control":   {workloads: func(w []Workload) []Workload { return w[1:] }, want: []string{"no Deployment controller in the management cluster"}},
		"no node part": {workloads: func(w []Workload) []Workload { return w[:1] }, want: []string{"there are no workloads in the hosted cluster"}},
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

func TestTableTellsTheSides(t *testing.T) {
	t.Parallel()
	got := strings.Join(Snapshot{hostedState()}.table(), "\n")
	want := strings.TrimSpace(`
CONDITION     STATUS  REASON  MESSAGE
NFSAvailable  True

WORKLOAD    NAME        READY  CLUSTER
Deployment  controller  1/1    management
DaemonSet   node        2/2    guest

STORAGECLASS  SHARE TYPE
(none yet)`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// object is a workload in a store.
func object(t *testing.T, store cache.Store, namespace, name string) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetNamespace(namespace)
	o.SetName(name)
	if err := store.Add(o); err != nil {
		t.Fatal(err)
	}
}

// The controllers of many drivers are in one namespace of the management cluster.
func TestSourceKeepsTheSidesApart(t *testing.T) {
	t.Parallel()
	newStore := func() cache.Store { return cache.NewStore(cache.MetaNamespaceKeyFunc) }
	source := Source{
		Drivers: []Driver{hostedState().Driver},
		caches: map[schema.GroupVersionResource]cache.Store{
			clusterCSIDrivers(): newStore(), deployments(): newStore(), daemonSets(): newStore(), storageClasses(): newStore(),
		},
		controlPlanes: map[string]cache.Store{"clusters-g": newStore()},
	}
	object(t, source.caches[deployments()], "driver", "another")
	object(t, source.caches[daemonSets()], "driver", "node")
	object(t, source.caches[daemonSets()], "elsewhere", "node")
	object(t, source.controlPlanes["clusters-g"], "clusters-g", "controller")
	object(t, source.controlPlanes["clusters-g"], "clusters-g", "the-operator")
	now, err := source.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Side{}
	for _, w := range now[0].Workloads {
		got[w.Name] = w.Side
	}
	if diff := cmp.Diff(map[string]Side{"another": Guest, "node": Guest, "controller": Management}, got); diff != "" || len(now[0].Workloads) != 3 {
		t.Errorf("%d workloads (-want +got):\n%s", len(now[0].Workloads), diff)
	}
}

func TestOverview(t *testing.T) {
	t.Parallel()
	overview := Overview{
		{Guest: "guest-1"},
		{Guest: "guest-2", Missing: []string{"condition A=False:\nline two"}},
		{Guest: "guest-10", Missing: []string{"no StorageClass a", "b", "c"}},
	}
	want := strings.TrimSpace(`
CLUSTER   STATE
guest-1   is ready
guest-2   waits: condition A=False: line two
guest-10  waits: no StorageClass a (and 2 more)`)
	if diff := cmp.Diff(want, strings.Join(overview.table(), "\n")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	var out bytes.Buffer
	display := NewDisplay(&out)
	display.Show(overview)
	out.Reset()
	overview = append(Overview{}, overview...)
	overview[1].Missing = nil
	display.Show(overview)
	if got := out.String(); !strings.HasSuffix(got, "s cluster guest-2 is ready\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("one change gave %q", got)
	}
}
