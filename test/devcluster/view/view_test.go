package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readyState() State {
	return State{
		Driver: Driver{Title: "manila", PerShareType: true},
		Conditions: []Condition{
			{Type: "ManilaControllerAvailable", Status: "True"},
			{Type: "NFSAvailable", Status: "True"},
			{Type: "NFSDegraded", Status: "False"},
		},
		Workloads: []Workload{
			{Kind: "Deployment", Name: "controller", Ready: 2, Desired: 2, RolledOut: true},
			{Kind: "DaemonSet", Name: "node", Ready: 5, Desired: 5, RolledOut: true},
		},
		Classes: []Class{{Name: "csi-manila-default", ShareType: "default"}},
	}
}

func readySnapshot() Snapshot { return Snapshot{readyState()} }

// readyBoth has a second driver, which reports a condition of the same type.
func readyBoth() Snapshot {
	return Snapshot{readyState(), {
		Driver:     Driver{Title: "cinder", Classes: []string{"standard-csi"}},
		Conditions: []Condition{{Type: "NFSAvailable", Status: "True"}},
		Workloads:  []Workload{{Kind: "Deployment", Name: "controller", Ready: 2, Desired: 2, RolledOut: true}},
		Classes:    []Class{{Name: "standard-csi"}},
	}}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*State)
		types  []string
		want   []string
	}{
		"ready": {change: func(*State) {}, types: []string{"default"}},
		"no condition": {
			change: func(s *State) { s.Conditions = nil },
			want:   []string{"no condition says Available"},
		},
		"one not available": {
			change: func(s *State) {
				s.Conditions[1] = Condition{Type: "NFSAvailable", Status: "False", Reason: "Waiting", Message: "soon"}
			},
			want: []string{"condition NFSAvailable=False Waiting: soon"},
		},
		"disabled whatever its status": {
			change: func(s *State) {
				s.Conditions = append(s.Conditions, Condition{Type: "ManilaControllerDisabled", Status: "False"})
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

func TestLinesTellOnlyChanges(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	display := NewDisplay(&out)
	s := readySnapshot()
	display.Show(s)
	display.Show(s)
	if got := strings.Count(out.String(), "\n"); got != len(s.lines()) {
		t.Errorf("two equal snapshots gave %d lines, want %d:\n%s", got, len(s.lines()), out.String())
	}
	out.Reset()
	changed := readySnapshot()
	changed[0].Workloads[1].Ready = 4
	changed[0].Classes = nil
	display.Show(changed)
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		_, text, _ := strings.Cut(line, "s ")
		got = append(got, text)
	}
	want := []string{"DaemonSet node 4/5", `gone: StorageClass csi-manila-default for share type "default"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestMissingNamesTheDriver(t *testing.T) {
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

// What one driver loses is gone, even if the other has something of that name.
func TestLinesTellDriversApart(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	display := NewDisplay(&out)
	display.Show(readyBoth())
	out.Reset()
	changed := readyBoth()
	changed[0].Workloads = changed[0].Workloads[1:]
	changed[1].Conditions[0].Status = "False"
	display.Show(changed)
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{"cinder: condition NFSAvailable=False", "gone: manila: Deployment controller 2/2"}
	for i := range got {
		_, got[i], _ = strings.Cut(got[i], "s ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestTableHasAllDrivers(t *testing.T) {
	t.Parallel()
	got := strings.Join(readyBoth().table(), "\n")
	want := strings.TrimSpace(`
MANILA
CONDITION                  STATUS  REASON  MESSAGE
ManilaControllerAvailable  True
NFSAvailable               True
NFSDegraded                False

WORKLOAD    NAME        READY
Deployment  controller  2/2
DaemonSet   node        5/5

STORAGECLASS        SHARE TYPE
csi-manila-default  default

CINDER
CONDITION     STATUS  REASON  MESSAGE
NFSAvailable  True

WORKLOAD    NAME        READY
Deployment  controller  2/2

STORAGECLASS  SHARE TYPE
standard-csi`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestTableRedrawsInPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	display := &table{out: &out, size: func() (int, int, error) { return 30, 6, nil }}
	display.Show(readySnapshot())
	first := out.String()
	for _, row := range strings.Split(strings.TrimSuffix(first, "\n"), "\n") {
		if len(row) > 29 {
			t.Errorf("row %q would wrap on a terminal of 30 columns", row)
		}
	}
	if got := strings.Count(first, "\n"); got != 5 {
		t.Errorf("%d rows on a terminal of 6, want 5", got)
	}
	out.Reset()
	display.Show(readySnapshot())
	if out.Len() > 0 {
		t.Errorf("an equal snapshot was drawn again: %q", out.String())
	}
	if _, err := display.Write([]byte("a note\n")); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[5A\r\x1b[Ja note\n" + first; out.String() != want {
		t.Errorf("a note gave %q, want %q", out.String(), want)
	}
}
