package command

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/openstack-csi/csi-operator/test/devcluster/layout"
	"github.com/openstack-csi/csi-operator/test/devcluster/supervisor"
)

// TestMain lets the test binary be what it starts: the supervisor of `up`, and
// the operator of `run`.
func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == fakeOperatorName:
		os.Exit(playFakeOperator(os.Args[1:]))
	case len(os.Args) > 1 && os.Args[1] == superviseCommand:
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// devcluster runs the command line and returns all it printed. Like make, it finds
// the Kubernetes binaries in the folder that K8S_BIN_DIR names.
func devcluster(dir layout.Dir, args ...string) (string, int) {
	var out bytes.Buffer
	args = append(args, "--dir="+string(dir), "--binaries="+os.Getenv("K8S_BIN_DIR"))
	code := Main(args, &out, &out)
	return out.String(), code
}

func mustRun(t *testing.T, dir layout.Dir, args ...string) string {
	t.Helper()
	out, code := devcluster(dir, args...)
	if code != 0 {
		t.Fatalf("devcluster %s ended with %d:\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

func newDir(t *testing.T) layout.Dir {
	t.Helper()
	dir := layout.Dir(t.TempDir())
	t.Cleanup(func() {
		if out, code := devcluster(dir, "down"); code != 0 {
			t.Errorf("devcluster down ended with %d:\n%s", code, out)
		}
		if left := processes(t, dir); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
	return dir
}

// processes returns the ids of processes with an argument inside of dir, by the
// name of their program.
func processes(t *testing.T, dir layout.Dir) map[string]int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte(string(dir)+"/")) {
			continue // it may have ended meanwhile
		}
		program, _, _ := strings.Cut(string(line), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(program)] = pid
	}
	return found
}

func client(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func eventually(t *testing.T, what string, is func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, is); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func TestUpAndDown(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	if out := mustRun(t, dir, "up", "--tls"); !strings.Contains(out, "export KUBECONFIG="+dir.AdminKubeconfig()) {
		t.Errorf("up does not say how to reach the cluster:\n%s", out)
	}
	mustRun(t, dir, "status")
	if out, code := devcluster(dir, "up"); code == 0 || !strings.Contains(out, "running here already") {
		t.Errorf("a second up ended with %d:\n%s", code, out)
	}
	admin := client(t, dir.AdminKubeconfig())
	version, err := admin.Discovery().ServerVersion()
	if err != nil || version.GitVersion != "v1.36.2" {
		t.Errorf("server version is %v, %v", version, err)
	}
	checkNodes(t, admin)
	checkOperator(t, dir)
	checkRotation(t, dir, admin)
	checkOutage(t, dir)
	checkDeath(t, dir)
	for range 2 {
		mustRun(t, dir, "down")
	}
}

// checkNodes proves that nodes have leases, without which they would not stay
// ready.
func checkNodes(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	eventually(t, "all nodes hold their leases", func(ctx context.Context) (bool, error) {
		leases, err := admin.CoordinationV1().Leases("kube-node-lease").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		held := 0
		for _, lease := range leases.Items {
			if lease.Spec.RenewTime != nil {
				held++
			}
		}
		return held == 5, nil
	})
}

// checkOperator proves that the operator's kubeconfig is that of its service
// account, and that the audit log sees it.
func checkOperator(t *testing.T, dir layout.Dir) {
	t.Helper()
	const user = "system:serviceaccount:openshift-cluster-csi-drivers:manila-csi-driver-operator"
	operator := client(t, dir.Kubeconfig("manila-csi-driver-operator"))
	review, err := operator.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != user {
		t.Errorf("the operator is %v, %v", review, err)
	}
	eventually(t, "the audit log names the operator", func(context.Context) (bool, error) {
		log, err := os.ReadFile(dir.AuditLog())
		return bytes.Contains(log, []byte(user)), err
	})
}

func checkRotation(t *testing.T, dir layout.Dir, admin kubernetes.Interface) {
	t.Helper()
	clouds := func() string {
		content, err := os.ReadFile(dir.OpenStackClouds())
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	before := clouds()
	mustRun(t, dir, "cloud", "rotate-credentials")
	eventually(t, "the operator's file is the new Secret", func(ctx context.Context) (bool, error) {
		secret, err := admin.CoreV1().Secrets("openshift-cluster-csi-drivers").Get(ctx, "openstack-cloud-credentials", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		now := string(secret.Data["clouds.yaml"])
		return now != before && clouds() == now && len(secret.Data["cacert"]) > 0, nil
	})
}

func checkOutage(t *testing.T, dir layout.Dir) {
	t.Helper()
	mustRun(t, dir, "cloud", "outage", "503")
	mustRun(t, dir, "cloud", "recover")
	mustRun(t, dir, "cloud", "share-type", "add", "gold")
	mustRun(t, dir, "cloud", "share-type", "remove", "gold")
	if out, code := devcluster(dir, "cloud", "share-type", "remove", "gold"); code == 0 {
		t.Errorf("a missing share type was removed:\n%s", out)
	}
}

// checkDeath proves that nothing stays when one component ends.
func checkDeath(t *testing.T, dir layout.Dir) {
	t.Helper()
	pid, found := processes(t, dir)["kube-scheduler"]
	if !found {
		t.Fatalf("no scheduler runs: %v", processes(t, dir))
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster has failed", func(context.Context) (bool, error) {
		state, err := supervisor.Read(dir)
		return state.Phase == supervisor.Failed && strings.Contains(state.Error, "kube-scheduler ended"), err
	})
	if out, code := devcluster(dir, "status"); code == 0 || !strings.Contains(out, "kube-scheduler ended") {
		t.Errorf("status ended with %d:\n%s", code, out)
	}
	eventually(t, "all processes are gone", func(context.Context) (bool, error) { return len(processes(t, dir)) == 0, nil })
}

// It runs beside the cluster of TestUpAndDown.
func TestRunExitsWhenReady(t *testing.T) {
	t.Parallel()
	dir, bin := newDir(t), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, fakeOperatorName)); err != nil {
		t.Fatal(err)
	}
	out, code := devcluster(dir, "run", "--exit-when-ready", "--bin="+bin)
	for _, want := range []string{
		"export KUBECONFIG=" + dir.AdminKubeconfig(), "ready after",
		"Deployment openstack-manila-csi-controllerplugin 2/2", "DaemonSet openstack-manila-csi-nodeplugin 5/5",
		`StorageClass csi-manila-fast for share type "fast"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if code != 0 || t.Failed() {
		log, _ := os.ReadFile(dir.OperatorLog(fakeOperatorName)) // only to explain
		t.Errorf("run ended with %d:\n%s\n%s", code, out, log)
	}
	if left := processes(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestRunTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir, bin := newDir(t), t.TempDir()
	idle := []byte("#!/bin/sh\ntrap 'exit 0' TERM\nwhile :; do sleep 0.1; done\n")
	if err := os.WriteFile(filepath.Join(bin, fakeOperatorName), idle, 0o755); err != nil {
		t.Fatal(err)
	}
	out, code := devcluster(dir, "run", "--cloud=none", "--exit-when-ready", "--timeout=1s", "--bin="+bin)
	for _, want := range []string{"not ready within 1s", "no condition says Available", "there are no workloads"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if code != 1 || t.Failed() {
		t.Errorf("run ended with %d:\n%s", code, out)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"unknown driver":     {"up", "--drivers=swift"},
		"two drivers":        {"up", "--drivers=manila,manila"},
		"unknown outage":     {"cloud", "outage", "tired"},
		"no cloud":           {"cloud", "recover"},
		"not running":        {"status"},
		"operator not built": {"run", "--bin=" + t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := devcluster(layout.Dir(t.TempDir()), args...)
			if code != 1 || !strings.Contains(out, "devcluster: ") {
				t.Errorf("ended with %d:\n%s", code, out)
			}
		})
	}
}
