//go:build integration

package sanity

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/view"
	"github.com/openstack-csi/csi-operator/test/node/loop"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	// metadataAddress is the address of the metadata service of OpenStack.
	metadataAddress = "169.254.169.254"
	// sharesAddress is where the stand-in of the NFS driver asks for access to a share.
	sharesAddress = "127.0.0.1:2049"
	// exportsFolder is where that stand-in finds the folders of the shares.
	exportsFolder = kubeletFolder + "/plugins/csi-nfsplugin/exports"
	// settleTime bounds how long the simulator holds an answer until its operations are complete:
	// csi-sanity does not retry.
	settleTime = time.Minute
	// readyTimeout bounds the start of the drivers, for a busy machine.
	readyTimeout = 5 * time.Minute
	// loopDevices is the number of loop devices that exist before the kernel uses them.
	loopDevices = 128
)

// site is a devcluster with the operators, and a node for the programs of their drivers.
type site struct {
	dir    string // contains all files
	node   string // contains files of the node
	cloud  *simulator.Simulator
	client kubernetes.Interface
}

// newSite starts everything except the drivers. It ends with the test.
func newSite(t *testing.T) *site {
	t.Helper()
	// `unshare` starts the test as the first process of a namespace.
	assert.Assert(t, os.Getpid() == 1,
		"this test needs namespaces of its own: run it with `make test-csi-sanity`, as root")
	dir := newFolder(t)
	s := &site{dir: dir, node: filepath.Join(dir, "node")}
	connect(t)
	s.startCloud(t)
	s.makeNode(t)
	s.startOperators(t)
	return s
}

// newFolder returns a folder in memory. Everything that is mounted in it disappears with it.
func newFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	mount(t, "tmpfs", folder, 0, "mode=755")
	t.Cleanup(func() {
		assert.Check(t, unix.Unmount(folder, unix.MNT_DETACH), "unmounting %s", folder)
	})
	return folder
}

// connect adds addresses to the network of the test: that of the metadata service, and one for the
// API server, which is the default route although no packet leaves the network.
func connect(t *testing.T) {
	t.Helper()
	commands := []string{
		"link set lo up",
		"address add " + metadataAddress + "/32 dev lo",
		"link add eth0 type veth peer name nobody",
		"address add 192.0.2.1/24 dev eth0", // for documentation, as RFC 5737 says
		"link set nobody up",
		"link set eth0 up",
		"route add default via 192.0.2.2",
	}
	for _, command := range commands {
		run(t, "ip", strings.Fields(command)...)
	}
}

// startCloud starts the simulator with volumes and shares on disk.
func (s *site) startCloud(t *testing.T) {
	t.Helper()
	var err error
	s.cloud, err = simulator.New(simulator.Config{
		State: filepath.Join(s.dir, "openstack"), Settle: settleTime,
		ShareTypes: []simulator.ShareType{{Name: "default"}},
		Report:     func(err error) { t.Errorf("OpenStack: %v", err) },
	})
	assert.NilError(t, err)
	t.Cleanup(func() {
		assert.Check(t, s.cloud.Close())
	})
	assert.NilError(t, s.cloud.Start(context.WithoutCancel(t.Context())))
	serve(t, sharesAddress, s.cloud.Exports())
}

// makeNode makes the folders and devices of the node, which is a server of the cloud.
func (s *site) makeNode(t *testing.T) {
	t.Helper()
	dev := filepath.Join(s.node, "dev")
	mount(t, "tmpfs", dev, 0, "mode=755")
	disks := filepath.Join(dev, "disk", "by-id")
	assert.NilError(t, os.MkdirAll(disks, 0o755))
	devices := map[string]uint64{
		"null": unix.Mkdev(1, 3), "zero": unix.Mkdev(1, 5), "random": unix.Mkdev(1, 8),
		"urandom": unix.Mkdev(1, 9), "loop-control": unix.Mkdev(10, 237),
	}
	for name, number := range devices {
		makeDevice(t, filepath.Join(dev, name), unix.S_IFCHR|0o666, number)
	}
	for i := range loopDevices {
		name := "loop" + strconv.Itoa(i)
		makeDevice(t, filepath.Join(dev, name), unix.S_IFBLK|0o660, unix.Mkdev(7, uint32(i)))
	}
	kubelet := filepath.Join(s.node, kubeletFolder)
	mount(t, "tmpfs", kubelet, 0, "mode=755")
	mount(t, "", kubelet, unix.MS_SHARED, "")
	shares := filepath.Join(s.dir, "openstack", "shares")
	assert.NilError(t, os.MkdirAll(shares, 0o755))
	mount(t, shares, filepath.Join(s.node, exportsFolder), unix.MS_BIND, "")

	machine := loop.NewDisks(disks)
	t.Cleanup(func() {
		assert.Check(t, machine.Close())
	})
	server := simulator.Server{
		ID: string(uuid.NewUUID()), Name: "node", Zone: "nova", Machine: machine,
	}
	s.cloud.AddServer(server)
	serve(t, net.JoinHostPort(metadataAddress, "80"), s.cloud.Metadata(server.ID))
}

func makeDevice(t *testing.T, path string, mode uint32, number uint64) {
	t.Helper()
	assert.NilError(t, unix.Mknod(path, mode, int(number)), "making device %s", path)
}

// startOperators starts a devcluster with the operators, and waits until all drivers are ready.
func (s *site) startOperators(t *testing.T) {
	t.Helper()
	operators, err := fixtures.Operators([]string{"cinder", "manila"})
	assert.NilError(t, err)
	dir := paths.Dir(filepath.Join(s.dir, "cluster"))
	c, err := cluster.Start(t.Context(), cluster.Options{
		Dir: dir, Binaries: os.Getenv("K8S_BIN_DIR"), Operators: operators, Cloud: s.cloud,
		Progress: t.Output(),
	})
	assert.NilError(t, err)
	t.Cleanup(c.Stop)
	environment := c.Environments()[0]
	if s.client, err = kubernetes.NewForConfig(environment.Config()); err != nil {
		t.Fatal(err)
	}
	for _, o := range environment.Operators {
		runner := operator.Runner{
			Operator: o, Bin: os.Getenv("BIN_DIR"), Dir: dir, Env: o.Env(),
			Progress: t.Output(),
		}
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(t.Context()) }()
		t.Cleanup(func() {
			assert.Check(t, <-ended)
		})
	}
	waitUntilReady(t, environment)
}

// waitUntilReady waits until the operators have deployed all drivers.
func waitUntilReady(t *testing.T, e *cluster.Environment) {
	t.Helper()
	source, err := view.NewSource(e)
	assert.NilError(t, err)
	var missing []string
	err = wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, readyTimeout, true,
		func(ctx context.Context) (bool, error) {
			state, err := source.Read(ctx, []string{"default"})
			missing = state.Missing
			return len(missing) == 0, err
		})
	assert.Assert(t, err == nil, "waiting for the drivers: %v\n%s", err, strings.Join(missing, "\n"))
}

// pod returns a pod of a workload. All pods of a workload differ only in their node.
func (s *site) pod(t *testing.T, namespace, workload string) *corev1.Pod {
	t.Helper()
	pods, err := s.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	assert.NilError(t, err)
	for i := range pods.Items {
		if owner(&pods.Items[i]) == workload {
			return &pods.Items[i]
		}
	}
	t.Fatalf("workload %s in %s has no pod", workload, namespace)
	return nil
}

// owner returns the name of the workload of a pod. The name of a ReplicaSet is that of its
// Deployment and a hash.
func owner(pod *corev1.Pod) string {
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return pod.Name
	}
	if controller.Kind == "ReplicaSet" {
		return strings.TrimSuffix(controller.Name, "-"+pod.Labels["pod-template-hash"])
	}
	return controller.Name
}

func (s *site) configMap(t *testing.T, namespace, name string) map[string]string {
	t.Helper()
	found, err := s.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	assert.NilError(t, err)
	return found.Data
}

// serve serves on an address until the test ends.
func serve(t *testing.T, address string, handler http.Handler) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	assert.NilError(t, err)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() {
		// The requests end with the test.
		_ = server.Close()
	})
	go func() { _ = server.Serve(listener) }() // it returns when the server is closed
}

// run runs a command, and fails with its output.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out))
	}
}
