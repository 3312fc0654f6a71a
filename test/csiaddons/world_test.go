//go:build integration

package csiaddons

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/sidecar"
)

const (
	driverNamespace = "csi"
	systemNamespace = "csi-addons-system"
	managerAccount  = "csi-addons-controller-manager"
	managerUser     = "system:serviceaccount:" + systemNamespace + ":" + managerAccount
)

// soon bounds what the API server does in seconds, on a busy machine.
const soon = 2 * time.Minute

// world is a cluster that no other test uses until the test ends.
type world struct {
	*testing.T
	*cluster

	began time.Time
	// pod is the pod of the Deployment of the controller. Tests run the controller in their own
	// process, with the identity of that pod.
	pod string
}

// borrow waits for a cluster that contains nothing of CSI-Addons.
func borrow(t *testing.T) *world {
	t.Helper()
	return &world{T: t, cluster: clusters.Borrow(t), began: time.Now()}
}

// newWorld installs the manifests of the controller, and creates a namespace of drivers and a Node.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := borrow(t)
	w.addNode("worker-1")
	w.apply("crd")
	w.apply("controller")
	w.addDriverNamespace(driverNamespace)
	w.awaitPod()
	w.awaitCRDs()
	return w
}

// apply installs a folder of assets/csi-addons. Its kustomization only lists files.
func (w *world) apply(folder string) {
	w.Helper()
	folder = filepath.Join("../../assets/csi-addons", folder)
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	w.must(err)
	var list struct{ Resources []string }
	w.must(yaml.Unmarshal(text, &list))
	for _, name := range list.Resources {
		text, err := os.ReadFile(filepath.Join(folder, name))
		w.must(err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			one := &unstructured.Unstructured{}
			w.must(yaml.Unmarshal([]byte(document), one))
			w.must(w.client.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(one),
				client.FieldOwner("test")))
		}
	}
}

// awaitPod waits until the pod of the controller runs. kwok would overwrite its conditions later.
func (w *world) awaitPod() {
	w.Helper()
	w.eventually(func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := w.client.List(ctx, &pods, client.InNamespace(systemNamespace))
		if err != nil || len(pods.Items) == 0 || pods.Items[0].Status.Phase != corev1.PodRunning {
			return false, err
		}
		w.pod = pods.Items[0].Name
		return true, nil
	})
}

// awaitCRDs waits until the API server serves the CRDs.
func (w *world) awaitCRDs() {
	w.Helper()
	for _, list := range []client.ObjectList{
		&v1alpha1.CSIAddonsNodeList{}, &v1alpha1.ReclaimSpaceJobList{},
		&v1alpha1.ReclaimSpaceCronJobList{}, &v1alpha1.NetworkFenceClassList{},
		&v1alpha1.NetworkFenceList{},
	} {
		w.eventually(func(ctx context.Context) (bool, error) {
			return w.client.List(ctx, list) == nil, nil
		})
	}
}

func (w *world) must(err error) {
	w.Helper()
	assert.NilError(w, err)
}

// eventually waits for a condition, and shows objects if it does not come.
func (w *world) eventually(condition wait.ConditionWithContextFunc, shown ...any) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, soon, true, condition)
	for _, one := range shown {
		if err != nil {
			w.Logf("%+v", one)
		}
	}
	w.must(err)
}

// addDriverNamespace creates a namespace that the controller may serve, with a RoleBinding as those
// in assets/csi-addons/drivers.
func (w *world) addDriverNamespace(name string) {
	w.Helper()
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.bindDriverRole(name, managerAccount)
}

// bindDriverRole creates the RoleBinding of a ServiceAccount in the namespace of a driver.
func (w *world) bindDriverRole(namespace, account string) {
	w.Helper()
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
		RoleRef:    roleRef("ClusterRole", "csi-addons-driver-role"),
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: account,
		}},
	})
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		w.must(w.client.Create(w.Context(), object))
	}
}

// newController returns a controller with the permissions of its manifests.
func (w *world) newController(config *rest.Config, args ...string) *controller.Controller {
	w.Helper()
	var flags controller.Flags
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.AddTo(set)
	w.must(set.Parse(append([]string{
		"--namespace=" + systemNamespace, "--pod=" + w.pod, "--leader-elect",
		"--health-probe-bind-address=0", "--csi-addons-node-retry-delay=1",
	}, append(patient(), args...)...)))
	s, err := flags.Load()
	w.must(err)
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = managerUser
	return &controller.Controller{Settings: s, Config: config, Metrics: connection.NewMetrics(nil)}
}

// patient returns flags of the controller and of sidecars. On a busy machine, renewing the Lease
// can take longer than the default of 10 s.
func patient() []string {
	return []string{"--leader-election-lease-duration=60s", "--leader-election-renew-deadline=50s"}
}

// runController runs the controller with the permissions of its manifests until it is stopped, or
// the test ends. The channel receives how it ends.
func (w *world) runController(config *rest.Config, args ...string) (<-chan error, func()) {
	w.Helper()
	c, ended := w.newController(config, args...), make(chan error, 1)
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() { ended <- c.Run(ctx) })
	w.Cleanup(running.Wait)
	w.Cleanup(cancel)
	return ended, cancel
}

// startController runs the controller, which must end without an error. The returned function stops
// it, and can be called again.
func (w *world) startController(args ...string) func() {
	w.Helper()
	ended, cancel := w.runController(w.config, args...)
	stop := sync.OnceFunc(func() {
		cancel()
		assert.Check(w, <-ended, "the end of the controller")
	})
	w.Cleanup(stop)
	return stop
}

// awaitGone waits until an object does not exist.
func (w *world) awaitGone(object client.Object) {
	w.Helper()
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func (w *world) addNode(name string) {
	w.Helper()
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// addPod creates a pod of a driver that runs on a node, with the address of this machine.
func (w *world) addPod(namespace, name, node string) *corev1.Pod {
	w.Helper()
	return w.addPodOf("default", namespace, name, node)
}

// addPodOf is addPod for a ServiceAccount.
func (w *world) addPodOf(account, namespace, name, node string) *corev1.Pod {
	w.Helper()
	pod := w.newPodOf(account, namespace, name, node)
	w.setAddress(pod, "127.0.0.1")
	return pod
}

// newPodOf creates a pod of a driver, with a ServiceAccount, that runs on a node.
func (w *world) newPodOf(account, namespace, name, node string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "a", Image: "a"}},
			ServiceAccountName: account, AutomountServiceAccountToken: ptr.To(false),
		},
	}
	w.eventually(func(ctx context.Context) (bool, error) { // the ServiceAccount may not exist yet
		return w.client.Create(ctx, pod) == nil, nil
	})
	return pod
}

// setAddress changes the address of a pod after kwok has started it.
//
// If a previous pod had the same name, kwok may delete the new one, because it deletes pods by
// name. A StatefulSet would then create the pod again, and so does this function.
func (w *world) setAddress(pod *corev1.Pod, address string) {
	w.Helper()
	again := pod.DeepCopy()
	again.UID, again.ResourceVersion = "", ""
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if apierrors.IsNotFound(err) {
			return false, w.client.Create(ctx, again.DeepCopy())
		}
		if err != nil {
			return false, err
		}
		if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
			return false, nil
		}
		pod.Status.PodIP = address
		pod.Status.PodIPs = []corev1.PodIP{{IP: address}}
		return w.client.Status().Update(ctx, pod) == nil, nil
	})
}

// removePod deletes a pod immediately.
func (w *world) removePod(pod *corev1.Pod) {
	w.Helper()
	w.must(w.client.Delete(w.Context(), pod, client.GracePeriodSeconds(0)))
}

// addSidecar runs a sidecar for a driver in a pod. The returned function stops it.
func (w *world) addSidecar(pod *corev1.Pod, d *fakeDriver, args ...string) func() {
	w.Helper()
	return w.addSidecarAs(w.config, pod, d, args...)
}

// addSidecarAs is addSidecar for a user of the API server.
func (w *world) addSidecarAs(config *rest.Config, pod *corev1.Pod, d *fakeDriver, args ...string,
) func() {
	w.Helper()
	var flags sidecar.Flags
	set := pflag.NewFlagSet("sidecar", pflag.ContinueOnError)
	flags.AddTo(set)
	w.must(set.Parse(append([]string{
		"--node-id=" + pod.Spec.NodeName, "--pod=" + pod.Name, "--namespace=" + pod.Namespace,
		"--pod-uid=" + string(pod.UID), "--controller-port=0",
	}, append(patient(), args...)...)))
	s, err := flags.Load()
	w.must(err)
	nodes, err := dynamic.NewForConfig(config)
	w.must(err)
	kube, err := kubernetes.NewForConfig(config)
	w.must(err)
	one := &sidecar.Program{
		Settings: s, Driver: w.serve(d), Kube: kube, Dynamic: nodes,
		Metrics: sidecar.NewMetrics(nil),
	}
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- one.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the sidecar of pod %s ended with %v", pod.Name, err)
		}
	})
	w.Cleanup(stop)
	return stop
}

// serve serves a driver on a socket.
func (w *world) serve(d *fakeDriver) *driver.Client {
	w.Helper()
	socket := filepath.Join(w.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(w.Context(), "unix", socket)
	w.must(err)
	server := grpc.NewServer()
	identity.RegisterIdentityServer(server, d)
	reclaimspace.RegisterReclaimSpaceNodeServer(server, d)
	reclaimspace.RegisterReclaimSpaceControllerServer(server, d)
	fence.RegisterFenceControllerServer(server, d)
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	w.Cleanup(server.Stop)
	found, err := driver.New(socket)
	w.must(err)
	w.Cleanup(func() { _ = found.Close() })
	return found
}

// addVolume creates a volume of a driver, a claim in the namespace default, and a VolumeAttachment
// for each node.
func (w *world) addVolume(name, driverOf string, nodes ...string) {
	w.Helper()
	w.addClaim("default", name, driverOf, nil)
	for _, node := range nodes {
		w.attach(name, driverOf, node)
	}
}

// attach creates the VolumeAttachment of a volume that is attached to a node.
func (w *world) attach(name, driverOf, node string) {
	w.Helper()
	volume := volumeName("default", name)
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + node},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driverOf, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}
	w.create(attachment)
	attachment.Status.Attached = true
	w.must(w.client.Status().Update(w.Context(), attachment))
}

func (w *world) addJob(name, claim string) {
	w.Helper()
	w.create(newJob(name, claim))
}

func newJob(name, claim string) *v1alpha1.ReclaimSpaceJob {
	job := &v1alpha1.ReclaimSpaceJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	job.Spec.Target.PersistentVolumeClaim = claim
	return job
}

// awaitJob waits until a function accepts a job.
func (w *world) awaitJob(name string, accept func(*v1alpha1.ReclaimSpaceJob) bool,
) *v1alpha1.ReclaimSpaceJob {
	w.Helper()
	job := &v1alpha1.ReclaimSpaceJob{}
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, job)
		return err == nil && accept(job), err
	}, name, &job.Status)
	return job
}

// awaitEnd waits until a job has ended.
func (w *world) awaitEnd(name string) *v1alpha1.ReclaimSpaceJob {
	w.Helper()
	return w.awaitJob(name, func(job *v1alpha1.ReclaimSpaceJob) bool {
		return job.Status.Result != ""
	})
}

// awaitSidecar waits until a function accepts a CSIAddonsNode of a driver.
func (w *world) awaitSidecar(driverOf string, accept func(*v1alpha1.CSIAddonsNode) bool,
) *v1alpha1.CSIAddonsNode {
	w.Helper()
	var found *v1alpha1.CSIAddonsNode
	var list v1alpha1.CSIAddonsNodeList
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.List(ctx, &list)
		for i := range list.Items {
			if node := &list.Items[i]; node.Spec.Driver.Name == driverOf && accept(node) {
				found = node
			}
		}
		return found != nil, err
	}, driverOf, &list)
	return found
}

// connected accepts a CSIAddonsNode to which the controller is connected.
func connected(node *v1alpha1.CSIAddonsNode) bool {
	return node.Status.State == v1alpha1.CSIAddonsNodeConnected
}

// awaitEvent waits for an event of an object whose message contains a text.
func (w *world) awaitEvent(namespace, object, text string) {
	w.Helper()
	w.eventually(func(ctx context.Context) (bool, error) {
		var events eventsv1.EventList
		if err := w.client.List(ctx, &events, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		return slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool {
			return event.Regarding.Name == object && strings.Contains(event.Note, text)
		}), nil
	})
}
