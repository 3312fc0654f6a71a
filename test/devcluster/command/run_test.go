//go:build integration

package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/devcluster/terminal"
)

// devcluster is a `devcluster run` in this process.
type devcluster struct {
	t         *testing.T
	dir       paths.Dir
	output    string // a file; empty with a terminal
	interrupt context.CancelFunc
	ended     chan struct{}
	err       error // set when it has ended
}

// run runs the operators of `make build`, unless the arguments say otherwise. The test fails if
// processes are left.
func run(t *testing.T, arguments ...string) *devcluster {
	t.Helper()
	file := filepath.Join(t.TempDir(), "output")
	output, err := os.Create(file)
	assert.NilError(t, err)
	d := runOn(t, output, arguments...)
	d.output = file
	return d
}

// runOn uses a file or a terminal for input and output.
func runOn(t *testing.T, output *os.File, arguments ...string) *devcluster {
	t.Helper()
	log.SetLogger(logr.Discard())
	d := &devcluster{t: t, dir: paths.Dir(t.TempDir()), ended: make(chan struct{})}
	bin, err := filepath.Abs("../../../bin")
	d.must(err)
	folders := []string{
		"--dir=" + string(d.dir), "--binaries=" + os.Getenv("K8S_BIN_DIR"), "--bin=" + bin,
	}
	root := newRoot(nil, slices.Concat([]string{"run"}, folders, arguments))
	root.SetIn(output)
	root.SetOut(output)
	var ctx context.Context
	ctx, d.interrupt = context.WithCancel(context.Background())
	go func() {
		d.err = root.ExecuteContext(ctx)
		close(d.ended)
	}()
	t.Cleanup(func() {
		d.interrupt()
		<-d.ended
		_ = output.Close() // a terminal may be closed already
		if t.Failed() && d.output != "" {
			t.Logf("run ended with error %v and printed\n%s", d.err, d.read(d.output))
		}
		if left := process.KillLeftovers(string(d.dir), os.Getenv("K8S_BIN_DIR"), bin); left > 0 {
			t.Errorf("%d processes are left", left)
		}
	})
	return d
}

func (d *devcluster) must(err error) {
	d.t.Helper()
	assert.NilError(d.t, err)
}

func (d *devcluster) read(path string) string {
	d.t.Helper()
	content, err := os.ReadFile(path)
	d.must(err)
	return string(content)
}

// eventually fails the test unless a condition holds within five minutes, or while run runs.
func (d *devcluster) eventually(what string, holds func() bool) {
	d.t.Helper()
	err := wait.PollUntilContextTimeout(d.t.Context(), 100*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) {
			select {
			case <-d.ended:
				return false, errors.New("run has ended")
			default:
				return holds(), nil
			}
		})
	assert.NilError(d.t, err, "waiting until %s", what)
}

func (d *devcluster) mustPrint(texts ...string) {
	d.t.Helper()
	output := d.read(d.output)
	for _, text := range texts {
		assert.Check(d.t, strings.Contains(output, text), "the output lacks %q", text)
	}
}

// execute executes commands while run runs.
func (d *devcluster) execute(lines ...string) {
	d.t.Helper()
	for _, line := range lines {
		if out, err := runCommand(d.t.Context(), d.dir, line); err != nil {
			d.t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

func (d *devcluster) mustRefuse(line, want string) {
	d.t.Helper()
	_, err := runCommand(d.t.Context(), d.dir, line)
	assert.Check(d.t, err != nil && strings.Contains(err.Error(), want),
		"%s gives %v, want %q", line, err, want)
}

func (d *devcluster) client(kubeconfig string) kubernetes.Interface {
	d.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	d.must(err)
	config.Timeout = 2 * time.Second
	client, err := kubernetes.NewForConfig(config)
	d.must(err)
	return client
}

func TestRunExitsWhenReady(t *testing.T) {
	t.Parallel()
	d := run(t, "--exit-when-ready", "--drivers=manila,cinder")
	<-d.ended
	d.must(d.err)
	d.mustPrint(
		"export KUBECONFIG="+d.dir.AdminKubeconfig(),
		"starting manila-operator, which logs to "+d.dir.OperatorLog("manila-operator"),
		"starting cinder-operator, which logs to "+d.dir.OperatorLog("cinder-operator"),
		"manila: Deployment openstack-manila-csi-controllerplugin 2/2",
		"manila: DaemonSet openstack-manila-csi-nodeplugin 5/5",
		`manila: StorageClass csi-manila-fast for share type "fast"`,
		"manila: condition OpenStackManilaDriverControllerServiceControllerAvailable=True",
		"cinder: Deployment openstack-cinder-csi-driver-controller 2/2",
		"cinder: DaemonSet openstack-cinder-csi-driver-node 5/5",
		"cinder: StorageClass standard-csi\n",
		"cinder: condition OpenStackCinderDriverNodeServiceControllerAvailable=True",
		"ready after",
	)
}

// The view follows the operators. Its last frame disappears when the user quits.
func TestRunShowsAViewOnATerminal(t *testing.T) {
	t.Parallel()
	x := terminal.Open(t)
	d := runOn(t, x.Program, "--flavour=hypershift", "--guests=2")
	x.MustShow("\nREADY")
	for _, want := range []string{
		"export KUBECONFIG=", "[guest-1 ready]", "guest-2 ready", "controller", "csi-manila-fast",
	} {
		x.MustShow(want)
	}
	x.Press("e")
	x.MustShow("devcluster ready after")
	x.Press("l")
	x.MustShow("LOG ")
	x.Press("c")
	x.MustShow("ok ManilaCloudReachable=True")
	x.Press("q")
	x.MustShow("stopping everything")
	<-d.ended
	d.must(d.err)
}

func TestRunWithoutOpenShift(t *testing.T) {
	t.Parallel()
	d := run(t, "--exit-when-ready", "--drivers=manila,cinder", "--flavour=kubernetes")
	<-d.ended
	d.must(d.err)
	d.mustPrint("manila: condition Ready=True", "cinder: condition Ready=True")
}

func TestRunPrintsWhatIsMissing(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	idle := []byte("#!/bin/sh\ntrap 'exit 0' TERM\nwhile :; do sleep 0.1; done\n")
	assert.NilError(t, process.WriteProgram(filepath.Join(bin, "manila-operator"), idle))
	d := run(t, "--exit-when-ready", "--timeout=1s", "--bin="+bin)
	<-d.ended
	for _, want := range []string{"not ready within 1s", "Available", `share type "fast"`} {
		if d.err == nil || !strings.Contains(d.err.Error(), want) {
			t.Errorf("run ended with %v, want %q", d.err, want)
		}
	}
}

// kwok starts again after it has ended. Any other component that ends stops everything.
func TestRunEndsWithScheduler(t *testing.T) {
	t.Parallel()
	d := run(t, "--no-operators")
	d.eventually("the cluster is up",
		func() bool { return strings.Contains(d.read(d.output), "the cluster is up") })
	d.mustRefuse("run --no-operators", "already")
	first := ""
	d.eventually("kwok renews the leases of nodes", func() bool {
		first = d.holderOfLeases()
		return first != ""
	})
	d.kill("kwok")
	d.eventually("another kwok renews the leases of nodes", func() bool {
		second := d.holderOfLeases()
		return second != "" && second != first
	})
	d.kill("kube-scheduler")
	<-d.ended
	if d.err == nil || !strings.Contains(d.err.Error(), "kube-scheduler ended") {
		t.Errorf("run ended with %v", d.err)
	}
}

func (d *devcluster) kill(component string) {
	d.t.Helper()
	found := process.Find(string(d.dir), filepath.Join(os.Getenv("K8S_BIN_DIR"), component))
	assert.Assert(d.t, len(found) == 1, "process IDs of %s: %v", component, found)
	d.must(syscall.Kill(found[0], syscall.SIGKILL))
}

// holderOfLeases returns which kwok renews the leases of all nodes, or an empty string.
func (d *devcluster) holderOfLeases() string {
	d.t.Helper()
	leases, err := d.client(d.dir.AdminKubeconfig()).CoordinationV1().
		Leases(corev1.NamespaceNodeLease).List(d.t.Context(), metav1.ListOptions{})
	d.must(err)
	holder := ""
	for i, lease := range leases.Items {
		switch next := ptr.Deref(lease.Spec.HolderIdentity, ""); {
		case i == 0:
			holder = next
		case next != holder:
			return ""
		}
	}
	return holder
}

func TestCommandsChangeHostedCluster(t *testing.T) {
	t.Parallel()
	d := run(t, "--flavour=hypershift", "--guests=2", "--drivers=manila,cinder", "--tls")
	d.eventually("both guest clusters are ready",
		func() bool { return strings.Contains(d.read(d.output), "ready after") })
	first, second := d.dir.Guest("guest-1"), d.dir.Guest("guest-2")
	d.mustPrint(
		"export KUBECONFIG="+d.dir.AdminKubeconfig(), "export KUBECONFIG="+second.AdminKubeconfig(),
		"starting manila-operator of guest-1, which logs to "+first.OperatorLog("manila-operator"),
		"starting cinder-operator of guest-2, which logs to "+second.OperatorLog("cinder-operator"),
		"cluster guest-1 waits", "cluster guest-1 is ready", "cluster guest-2 is ready",
	)
	d.checkCredentials(second)
	d.checkGuestKubeconfig(second)
	version := func(dir paths.Dir) error {
		_, err := d.client(dir.AdminKubeconfig()).Discovery().ServerVersion()
		return err
	}
	for _, how := range []string{"hang", "refuse"} {
		d.execute("api stop --side=guest --guest=guest-2 --how=" + how)
		d.mustRefuse("api stop --side=guest --guest=guest-2", "away already")
		if err := version(second); err == nil {
			t.Errorf("an API server that must %s answers", how)
		}
		d.must(errors.Join(version(first), version(d.dir)))
		d.execute("api start --side=guest --guest=guest-2")
		d.must(version(second))
	}
	d.mustRefuse("api start --side=controlPlane", "not away")
	// A cluster that hangs can be stopped.
	d.execute("api stop --how=hang")
	d.interrupt()
	<-d.ended
	d.must(d.err)
}

const manilaOperator = "manila-csi-driver-operator"

// checkCredentials checks that the Secrets of the control plane, and then the logins of the
// drivers, get new credentials only when somebody deletes the Secrets.
func (d *devcluster) checkCredentials(guest paths.Dir) {
	d.t.Helper()
	const namespace = "clusters-guest-2"
	control := d.client(d.dir.AdminKubeconfig()).CoreV1().Secrets(namespace)
	inGuest := d.client(guest.AdminKubeconfig()).CoreV1().Secrets("openshift-manila-csi-driver")
	version := func(secrets corev1client.SecretInterface, name string) string {
		secret, err := secrets.Get(d.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return ""
		}
		return secret.ResourceVersion
	}
	for source, login := range map[string]func() string{
		"openstack-cloud-credentials": func() string {
			return version(control, "openstack-cinder-csi-driver-login")
		},
		"manila-cloud-credentials": func() string { return version(inGuest, "csi-manila-secrets") },
	} {
		old, before := version(control, source), login()
		d.execute("cloud rotate-credentials")
		assert.Check(d.t, version(control, source) == old && login() == before,
			"Secret %s or its login changed before its deletion", source)
		d.must(control.Delete(d.t.Context(), source, metav1.DeleteOptions{}))
		d.eventually("the driver has the login in the new Secret "+source, func() bool {
			now := login()
			return now != before && now != ""
		})
	}
}

// checkGuestKubeconfig checks that the operators' file gets a new certificate, which is valid.
func (d *devcluster) checkGuestKubeconfig(guest paths.Dir) {
	d.t.Helper()
	before := d.read(guest.GuestKubeconfig(manilaOperator))
	d.execute("guest rotate-kubeconfig --guest=guest-2")
	d.eventually("the operators have a new kubeconfig",
		func() bool { return d.read(guest.GuestKubeconfig(manilaOperator)) != before })
	_, err := d.client(guest.GuestKubeconfig(manilaOperator)).Discovery().ServerVersion()
	d.must(err)
	d.mustRefuse("guest rotate-kubeconfig --guest=guest-3", "there is no guest cluster")
}
