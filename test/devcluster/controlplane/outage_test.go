package controlplane

import (
	"strings"
	"testing"
)

func TestSuspendAndResumeNeedAnAPIServer(t *testing.T) {
	t.Parallel()
	c := &ControlPlane{opts: Options{Dir: t.TempDir(), Binaries: t.TempDir()}}
	for how, want := range map[How]string{
		"vanish": "only refuse|hang", Hang: "found 0 processes", Refuse: "found 0 processes",
	} {
		if err := c.Suspend(t.Context(), how); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("suspending by %s gives %v, want %q", how, err, want)
		}
	}
	if err := c.Resume(t.Context()); err == nil || !strings.Contains(err.Error(), "not away") {
		t.Errorf("resuming gives %v", err)
	}
}
