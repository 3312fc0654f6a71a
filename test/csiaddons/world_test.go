//go:build integration

package csiaddons

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/kinds"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/metrics"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/sidecar"
)

const (
	systemNamespace = "csi-addons-system"
	managerAccount  = "csi-addons-controller-manager"
	managerUser     = "system:serviceaccount:" + systemNamespace + ":" + managerAccount
)

// world is a cluster in which the controller of CSI-Addons is installed.
type world struct {
	*cluster

	client client.Client
	// pod is the pod of the Deployment of the controller. Tests run the controller in their own
	// process, with the identity of that pod.
	pod     string
	metrics *prometheus.Registry
}

// newWorld installs the manifests of the controller, and creates the namespace of drivers.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := installedWorld(t, "controller")
	w.addDriverNamespace(driverNamespace)
	return w
}

// installedWorld creates namespaces, and installs the CRDs and a folder of assets/csi-addons.
func installedWorld(t *testing.T, folder string, namespaces ...string) *world {
	t.Helper()
	w := &world{cluster: startCluster(t)}
	known, err := kinds.NewScheme()
	w.must(err)
	w.client, err = client.New(w.config, client.Options{Scheme: known})
	w.must(err)
	for _, name := range namespaces {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	w.kubectl("apply", "--server-side", "-k", "../../assets/csi-addons/crd")
	w.kubectl("apply", "--server-side", "-k", "../../assets/csi-addons/"+folder)
	w.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	w.eventually(func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := w.client.List(ctx, &pods, client.InNamespace(systemNamespace))
		if err != nil || len(pods.Items) == 0 {
			return false, err
		}
		w.pod = pods.Items[0].Name
		return true, nil
	})
	return w
}

// addDriverNamespace creates a namespace that the controller may serve, with a RoleBinding as those
// in assets/csi-addons/drivers.
func (w *world) addDriverNamespace(name string) {
	w.Helper()
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.bindDriverRole(name)
}

// bindDriverRole creates the RoleBinding in the namespace of a driver.
func (w *world) bindDriverRole(namespace string) {
	w.Helper()
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "csi-addons-driver-rolebinding"},
		RoleRef:    roleRef("ClusterRole", "csi-addons-driver-role"),
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: managerAccount,
		}},
	})
}

func (w *world) kubectl(args ...string) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), filepath.Join(w.kubernetes, "kubectl"),
		append([]string{"--kubeconfig=" + w.kubeconfig}, args...)...)
	if output, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("kubectl %v: %v\n%s", args, err, output)
	}
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
	var flags settings.Flags
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.AddTo(set)
	w.must(set.Parse(append([]string{
		"--namespace=" + systemNamespace, "--pod=" + w.pod, "--leader-elect",
		"--health-probe-bind-address=0", "--csi-addons-node-retry-delay=1",
	}, args...)))
	s, err := flags.Load()
	w.must(err)
	w.metrics = prometheus.NewRegistry()
	recorded, err := metrics.New(w.metrics)
	w.must(err)
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = managerUser
	return &controller.Controller{Settings: s, Config: config, Metrics: recorded}
}

// startController runs the controller with the permissions of its manifests. The returned function
// stops it, and can be called again.
func (w *world) startController(args ...string) func() {
	w.Helper()
	c := w.newController(w.config, args...)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the controller ended with %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
}

// addNode creates a Node.
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

// newPod creates a pod of a driver that runs on a node.
func (w *world) newPod(namespace, name, node string) *corev1.Pod {
	w.Helper()
	return w.newPodOf("default", namespace, name, node)
}

// newPodOf is newPod for a ServiceAccount.
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
	}, args...)))
	s, err := flags.Load()
	w.must(err)
	nodes, err := dynamic.NewForConfig(config)
	w.must(err)
	kube, err := kubernetes.NewForConfig(config)
	w.must(err)
	one := &sidecar.Sidecar{
		Settings: s, Driver: w.serve(d), Kube: kube, Dynamic: nodes,
		Clock: clock.RealClock{}, Metrics: sidecar.NewMetrics(),
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

// addVolume creates a volume of a driver, a bound claim with the same name, and a VolumeAttachment
// for each node.
func (w *world) addVolume(name, driverOf string, nodes ...string) {
	w.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	w.create(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size,
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driverOf, VolumeHandle: name},
			},
		},
	}, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: name, StorageClassName: ptr.To(""),
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	})
	for _, node := range nodes {
		w.attach(name, driverOf, node)
	}
}

// attach creates the VolumeAttachment of a volume that is attached to a node.
func (w *world) attach(name, driverOf, node string) {
	w.Helper()
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + node},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driverOf, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
		},
	}
	w.create(attachment)
	attachment.Status.Attached = true
	w.must(w.client.Status().Update(w.Context(), attachment))
}

// addJob creates a job for a claim.
func (w *world) addJob(name, claim string, spec v1alpha1.ReclaimSpaceJobSpec) {
	w.Helper()
	spec.Target.PersistentVolumeClaim = claim
	w.create(&v1alpha1.ReclaimSpaceJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec,
	})
}

// awaitJob waits until a function accepts a job.
func (w *world) awaitJob(name string, accept func(*v1alpha1.ReclaimSpaceJob) bool,
) *v1alpha1.ReclaimSpaceJob {
	w.Helper()
	job := &v1alpha1.ReclaimSpaceJob{}
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, soon, true,
		func(ctx context.Context) (bool, error) {
			err := w.client.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, job)
			return err == nil && accept(job), err
		})
	if err != nil {
		w.Fatalf("job %s is not as expected: %v: %+v", name, err, job.Status)
	}
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
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, soon, true,
		func(ctx context.Context) (bool, error) {
			if err := w.client.List(ctx, &list); err != nil {
				return false, err
			}
			for i := range list.Items {
				if node := &list.Items[i]; node.Spec.Driver.Name == driverOf && accept(node) {
					found = node
					return true, nil
				}
			}
			return false, nil
		})
	if err != nil {
		w.Fatalf("no CSIAddonsNode of driver %s is as expected: %v: %+v", driverOf, err, list.Items)
	}
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
