package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readySnapshot() Snapshot {
	return Snapshot{
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

func TestMissing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Snapshot)
		types  []string
		want   []string
	}{
		"ready": {change: func(*Snapshot) {}, types: []string{"default"}},
		"no condition": {
			change: func(s *Snapshot) { s.Conditions = nil },
			want:   []string{"no condition says Available"},
		},
		"one not available": {
			change: func(s *Snapshot) {
				s.Conditions[1] = Condition{Type: "NFSAvailable", Status: "False", Reason: "Waiting", Message: "soon"}
			},
			want: []string{"condition NFSAvailable=False Waiting: soon"},
		},
		"disabled whatever its status": {
			change: func(s *Snapshot) {
				s.Conditions = append(s.Conditions, Condition{Type: "ManilaControllerDisabled", Status: "False"})
			},
			want: []string{"condition ManilaControllerDisabled=False"},
		},
		"degraded": {
			change: func(s *Snapshot) { s.Conditions[2].Status = "True" },
			want:   []string{"condition NFSDegraded=True"},
		},
		"no workloads": {
			change: func(s *Snapshot) { s.Workloads = nil },
			want:   []string{"there are no workloads"},
		},
		"rolling out": {
			change: func(s *Snapshot) { s.Workloads[0].RolledOut, s.Workloads[0].Ready = false, 1 },
			want:   []string{"Deployment controller 1/2 rolling out"},
		},
		"a share type without class": {
			change: func(*Snapshot) {},
			types:  []string{"default", "Fast"},
			want:   []string{`no StorageClass for share type "Fast"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := readySnapshot()
			test.change(&s)
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
	changed.Workloads[1].Ready = 4
	changed.Classes = nil
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
