package operator

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// newRunner runs a shell script as the operator.
func newRunner(t *testing.T, script string) (Runner, *strings.Builder) {
	t.Helper()
	bin := t.TempDir()
	err := process.WriteProgram(filepath.Join(bin, "the-operator"), []byte("#!/bin/sh\n"+script))
	if err != nil {
		t.Fatal(err)
	}
	var progress strings.Builder
	const folder = "/etc/guest-kubeconfig"
	return Runner{
		Operator: fixtures.Operator{
			Name: "the-operator", Program: "the-operator", Namespace: "ns",
			Pod: corev1.PodSpec{Containers: []corev1.Container{{
				Args:         []string{"start", "-v=2", "--guest-kubeconfig=" + folder + "/kubeconfig"},
				VolumeMounts: []corev1.VolumeMount{{MountPath: folder}},
			}}},
		},
		Bin: bin, Dir: paths.Dir(t.TempDir()), Env: []string{"GREETING=hello"}, Progress: &progress,
	}, &progress
}

func TestRunGivesUpOnCrashes(t *testing.T) {
	t.Parallel()
	r, progress := newRunner(t, `echo "$GREETING $1 $2" "$@"; exit 2`)
	err := r.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 2") ||
		!strings.Contains(err.Error(), "hello start -v=2 start") ||
		!strings.Contains(err.Error(), "--namespace=ns") {
		t.Errorf("got error %v, want the status and the log", err)
	}
	if got := strings.Count(progress.String(), "starting it again"); got != crashLimit-1 {
		t.Errorf("started again %d times, want %d", got, crashLimit-1)
	}
}

// TestRunRestartsUntilItsContextEnds uses an operator that ends without failure, as it does to read
// a new configuration.
func TestRunRestartsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	r, progress := newRunner(t, `trap 'echo bye; exit 0' TERM
echo "$@" >>"$0.starts"
if [ $(wc -l <"$0.starts") -lt 3 ]; then exit 0; fi
while :; do sleep 0.05; done`)
	r.Guest = "guest-1"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var starts string
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true,
		func(context.Context) (bool, error) {
			content, err := os.ReadFile(r.Path() + ".starts")
			starts = string(content)
			return err == nil && strings.Count(starts, "\n") == 3, nil
		})
	if err != nil {
		t.Fatalf("not started three times: %v\n%s", err, starts)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	want := "--guest-kubeconfig=" + r.Dir.GuestKubeconfig(r.Operator.Name) + " "
	if !strings.Contains(starts, want) {
		t.Errorf("the arguments lack %s:\n%s", want, starts)
	}
	const again = "the-operator of guest-1 ended; starting it again in 1s\n"
	if got := progress.String(); got != again+again {
		t.Errorf("Run reported %q, want two restarts", got)
	}
	if log, err := os.ReadFile(r.Log()); err != nil || string(log) != "bye\n" {
		t.Errorf("log is %q (%v), want the text of a graceful stop", log, err)
	}
}

func TestCheckNamesTheMissingProgram(t *testing.T) {
	t.Parallel()
	r, _ := newRunner(t, "")
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	r.Bin = t.TempDir()
	if err := r.Check(); err == nil || !strings.Contains(err.Error(), r.Path()) {
		t.Errorf("got error %v, want the path named", err)
	}
}

func TestEnvironmentIsThatOfAPod(t *testing.T) {
	t.Setenv("OS_CLOUD", "mine")
	t.Setenv("NO_PROXY", "example.com")
	t.Setenv("HTTP_PROXY", "proxy.example.com")
	r, _ := newRunner(t, "")
	env := r.Environment("NO_PROXY")
	for entry, want := range map[string]bool{
		"GREETING=hello": true, "NO_PROXY=example.com": true, "OS_CLOUD=mine": false,
		"HTTP_PROXY=proxy.example.com": false,
	} {
		if got := slices.Contains(env, entry); got != want {
			t.Errorf("%s is there: %t, want %t", entry, got, want)
		}
	}
}
