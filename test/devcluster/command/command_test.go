//go:build integration

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

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/supervisor"
)

// TestMain lets `up` start the test binary as the supervisor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == superviseCommand {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// devcluster runs the command line and returns its output. Like make, it finds the Kubernetes
// binaries in the folder of K8S_BIN_DIR.
func devcluster(dir paths.Dir, args ...string) (string, int) {
	var out bytes.Buffer
	args = append(args, "--dir="+string(dir), "--binaries="+os.Getenv("K8S_BIN_DIR"))
	code := Main(args, &out, &out)
	return out.String(), code
}

func mustRun(t *testing.T, dir paths.Dir, args ...string) string {
	t.Helper()
	out, code := devcluster(dir, args...)
	if code != 0 {
		t.Fatalf("devcluster %s ended with %d:\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

func newDir(t *testing.T) paths.Dir {
	t.Helper()
	dir := paths.Dir(t.TempDir())
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

// processes returns the IDs of processes with an argument below dir, by the name of their program.
func processes(t *testing.T, dir paths.Dir) map[string]int {
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
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, is)
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func TestUpAndDown(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	out := mustRun(t, dir, "up", "--tls", "--drivers=manila,cinder")
	if !strings.Contains(out, "export KUBECONFIG="+dir.AdminKubeconfig()) {
		t.Errorf("up does not say how to reach the cluster:\n%s", out)
	}
	mustRun(t, dir, "status")
	out, code := devcluster(dir, "up")
	if code == 0 || !strings.Contains(out, "running here already") {
		t.Errorf("a second up ended with %d:\n%s", code, out)
	}
	admin := client(t, dir.AdminKubeconfig())
	version, err := admin.Discovery().ServerVersion()
	if err != nil || version.GitVersion != "v1.36.2" {
		t.Errorf("server version is %v, %v", version, err)
	}
	checkNodes(t, admin)
	checkOperators(t, dir)
	checkRotation(t, dir, admin)
	checkDeath(t, dir)
	for range 2 {
		mustRun(t, dir, "down")
	}
}

// checkNodes checks that nodes have leases. Without leases they would become not ready.
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

// checkOperators checks that each operator has its own files, the kubeconfig of its ServiceAccount,
// and entries in the audit log.
func checkOperators(t *testing.T, dir paths.Dir) {
	t.Helper()
	images := map[string]string{
		"manila-csi-driver-operator":           "csi-driver-manila",
		"openstack-cinder-csi-driver-operator": "openstack-cinder-csi-driver",
	}
	configs := map[string]bool{}
	for name, image := range images {
		user := "system:serviceaccount:openshift-cluster-csi-drivers:" + name
		operator := client(t, dir.Kubeconfig(name))
		review, err := operator.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || review.Status.UserInfo.Username != user {
			t.Errorf("the operator is %v, %v", review, err)
		}
		eventually(t, "the audit log names the operator", func(context.Context) (bool, error) {
			log, err := os.ReadFile(dir.AuditLog())
			return bytes.Contains(log, []byte(user)), err
		})
		env := read(t, dir.OperatorEnv(name))
		if !strings.Contains(env, "\nDRIVER_IMAGE=") || !strings.Contains(env, "/"+image+":latest\n") {
			t.Errorf("environment of %s:\n%s", name, env)
		}
		configs[read(t, dir.OperatorConfig(name))] = true
	}
	if len(configs) != len(images) {
		t.Errorf("two operators serve on one address: %v", configs)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func checkRotation(t *testing.T, dir paths.Dir, admin kubernetes.Interface) {
	t.Helper()
	clouds := func() string { return read(t, dir.OpenStackClouds()) }
	before := clouds()
	mustRun(t, dir, "cloud", "rotate-credentials")
	eventually(t, "the operators' file is the new Secret", func(ctx context.Context) (bool, error) {
		secret, err := admin.CoreV1().Secrets("openshift-cluster-csi-drivers").Get(ctx,
			"openstack-cloud-credentials", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		now := string(secret.Data["clouds.yaml"])
		return now != before && clouds() == now && len(secret.Data["cacert"]) > 0, nil
	})
	manila, err := admin.CoreV1().Secrets("openshift-manila-csi-driver").Get(t.Context(),
		"manila-cloud-credentials", metav1.GetOptions{})
	if err != nil || string(manila.Data["clouds.yaml"]) != clouds() {
		t.Errorf("the Secret of Manila's driver is not the new one: %v", err)
	}
}

// checkDeath checks that no process is left when one component ends.
func checkDeath(t *testing.T, dir paths.Dir) {
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
		return state.Phase == supervisor.Failed &&
			strings.Contains(state.Error, "kube-scheduler ended"), err
	})
	out, code := devcluster(dir, "status")
	if code == 0 || !strings.Contains(out, "kube-scheduler ended") {
		t.Errorf("status ended with %d:\n%s", code, out)
	}
	eventually(t, "all processes are gone",
		func(context.Context) (bool, error) { return len(processes(t, dir)) == 0, nil })
}

// checkRun runs the operators of `make build` until they are ready.
func checkRun(t *testing.T, dir paths.Dir, wants []string, args ...string) {
	t.Helper()
	args = append([]string{"run", "--exit-when-ready", "--drivers=manila,cinder"}, args...)
	out, code := devcluster(dir, args...)
	for _, want := range append(wants, "export KUBECONFIG="+dir.AdminKubeconfig(), "ready after") {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not contain %q", want)
		}
	}
	if code != 0 || t.Failed() {
		t.Errorf("run ended with %d:\n%s", code, out)
	}
	if left := processes(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestRunExitsWhenReady(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	checkRun(t, dir, []string{
		"starting manila-operator, which logs to " + dir.OperatorLog("manila-operator"),
		"starting cinder-operator, which logs to " + dir.OperatorLog("cinder-operator"),
		"manila: Deployment openstack-manila-csi-controllerplugin 2/2",
		"manila: DaemonSet openstack-manila-csi-nodeplugin 5/5",
		`manila: StorageClass csi-manila-fast for share type "fast"`,
		"manila: condition OpenStackManilaDriverControllerServiceControllerAvailable=True",
		"cinder: Deployment openstack-cinder-csi-driver-controller 2/2",
		"cinder: DaemonSet openstack-cinder-csi-driver-node 5/5",
		"cinder: StorageClass standard-csi\n",
		"cinder: condition OpenStackCinderDriverNodeServiceControllerAvailable=True",
	})
}

func TestRunPrintsWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir, bin := newDir(t), t.TempDir()
	idle := []byte("#!/bin/sh\ntrap 'exit 0' TERM\nwhile :; do sleep 0.1; done\n")
	if err := os.WriteFile(filepath.Join(bin, "manila-operator"), idle, 0o755); err != nil {
		t.Fatal(err)
	}
	out, code := devcluster(dir, "run", "--cloud=none", "--exit-when-ready", "--timeout=1s",
		"--bin="+bin)
	for _, want := range []string{
		"not ready within 1s", "no Available condition is True", "there are no workloads",
	} {
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
		"a driver twice":     {"up", "--drivers=manila,manila"},
		"no driver":          {"up", "--drivers="},
		"unknown service":    {"cloud", "zones", "share", "nova"},
		"unknown outage":     {"cloud", "outage", "tired"},
		"no cloud":           {"cloud", "recover"},
		"not running":        {"status"},
		"operator not built": {"run", "--bin=" + t.TempDir()},
		"unknown flavour":    {"up", "--flavour=vanilla"},
		"guests of nobody":   {"up", "--guests=2"},
		"no guest":           {"up", "--flavour=hypershift", "--guests=0"},
		"no API server":      {"api", "stop"},
		"no guest cluster":   {"guest", "rotate-kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := devcluster(paths.Dir(t.TempDir()), args...)
			if code != 1 || !strings.Contains(out, "devcluster: ") {
				t.Errorf("ended with %d:\n%s", code, out)
			}
		})
	}
}
