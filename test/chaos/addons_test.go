//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/fakedriver"
)

const (
	addonsNamespace = "csi-addons-system"
	addonsAccount   = "csi-addons-controller-manager"
	addonsProgram   = "csi-addons-controller"
	// claims are in a namespace that no fault deletes.
	claimNamespace = "default"
)

// volume is a volume of the driver that the test serves, and the pod of the driver.
const volume = `{apiVersion: v1, kind: Pod,
  metadata: {namespace: openshift-cluster-csi-drivers, name: chaos-driver},
  spec: {nodeName: NODE, containers: [{name: a, image: a}],
    automountServiceAccountToken: false, tolerations: [{operator: Exists}]}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: chaos-volume},
  spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, storageClassName: none,
    claimRef: {namespace: default, name: chaos-claim},
    csi: {driver: cinder.csi.openstack.org, volumeHandle: chaos-volume}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: default, name: chaos-claim},
  spec: {accessModes: [ReadWriteOnce], volumeName: chaos-volume, storageClassName: none,
    resources: {requests: {storage: 1Gi}}}}
`

// addons is CSI-Addons with one driver, whose volume jobs reclaim.
type addons struct {
	client client.Client
	// calls is the number of calls of the driver, running of those at the same time, most of the
	// largest such number.
	calls, running, most atomic.Int32
	jobs                 int
	sidecar              *replica
}

// installAddons installs CSI-Addons and a driver, but starts no program.
func (w *world) installAddons() {
	w.Helper()
	kubectl := filepath.Join(w.kubernetes, "kubectl")
	config := rest.CopyConfig(w.guest.config)
	writer, err := fixtures.NewWriter(config)
	w.must(err)
	w.must(fixtures.WriteCSIAddons(w.Context(), writer, kubectl, w.env.Operators))
	nodes, err := w.guest.kube.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for _, object := range decode(w, strings.ReplaceAll(volume, "NODE", nodes.Items[0].Name)) {
		w.must(writer.Write(w.Context(), object))
	}
	scheme := runtime.NewScheme()
	w.must(errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)))
	w.addons = &addons{}
	w.addons.client, err = client.New(config, client.Options{Scheme: scheme})
	w.must(err)
}

func decode(w *world, text string) []*unstructured.Unstructured {
	w.Helper()
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		w.must(yaml.Unmarshal([]byte(document), object))
		objects = append(objects, object)
	}
	return objects
}

// startAddons starts the sidecar of the driver, and two replicas of the controller.
func (w *world) startAddons() {
	w.Helper()
	w.startSidecar()
	pods := &corev1.PodList{}
	w.eventually(soon, func() error {
		err := w.addons.client.List(w.Context(), pods, client.InNamespace(addonsNamespace))
		if err == nil && len(pods.Items) < 2 {
			err = errors.New("the controller of CSI-Addons does not have two pods")
		}
		return err
	})
	p := &program{
		name: addonsProgram, side: w.guest, namespace: addonsNamespace, account: addonsAccount,
	}
	w.programs = append(w.programs, p)
	w.renewTokens(p)
	for _, pod := range pods.Items[:2] {
		r := &replica{program: p, name: pod.Name, address: w.reserveAddress()}
		kubeconfig := filepath.Join(string(w.dir), r.name+".kubeconfig")
		w.connectAccount(r, kubeconfig)
		r.options = process.Options{
			Name: r.name, Path: filepath.Join(w.bin, addonsProgram),
			Args: []string{
				"--kubeconfig=" + kubeconfig, "--namespace=" + addonsNamespace, "--pod=" + r.name,
				"--leader-elect", "--health-probe-bind-address=0", "--csi-addons-node-retry-delay=1",
				"--metrics-secure=false", "--metrics-bind-address=" + r.address,
				"--driver-namespaces=cinder.csi.openstack.org=openshift-cluster-csi-drivers",
			},
			Env: []string{"GOGC=10"}, Log: filepath.Join(string(w.dir), r.name+".log"),
		}
		p.replicas = append(p.replicas, r)
		w.start(r)
	}
}

// awaitDriverPod waits until kwok has started the pod, and gives it the address of this machine.
func (w *world) awaitDriverPod() *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: "openshift-cluster-csi-drivers", Name: "chaos-driver"}
	w.eventually(soon, func() error {
		if err := w.addons.client.Get(w.Context(), key, pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
			return errors.New("the pod of the driver does not run")
		}
		pod.Status.PodIP = "127.0.0.1"
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
		return w.addons.client.Status().Update(w.Context(), pod)
	})
	return pod
}

// startSidecar serves the driver, and starts its sidecar, which is not behind a proxy.
func (w *world) startSidecar() {
	w.Helper()
	pod := w.awaitDriverPod()
	w.addons.sidecar = &replica{name: "sidecar", options: process.Options{
		Name: "sidecar", Path: filepath.Join(w.bin, "csi-addons-sidecar"),
		Args: []string{
			"--kubeconfig=" + w.env.Dir.AdminKubeconfig(), "--node-id=" + pod.Spec.NodeName,
			"--pod=" + pod.Name, "--namespace=" + pod.Namespace, "--pod-uid=" + string(pod.UID),
			"--csi-addons-address=" + fakedriver.Serve(w.T, w.addons.answer).Socket, "--controller-port=0",
		},
		Log: filepath.Join(string(w.dir), "sidecar.log"),
	}}
	w.start(w.addons.sidecar)
}

// answer answers the calls of the driver. A call to reclaim space takes a while.
func (a *addons) answer(_ context.Context, method string) (proto.Message, error) {
	switch method {
	case "GetIdentity":
		return &identity.GetIdentityResponse{Name: "cinder.csi.openstack.org"}, nil
	case "GetCapabilities":
		return &identity.GetCapabilitiesResponse{Capabilities: []*identity.Capability{
			{Type: &identity.Capability_Service_{Service: &identity.Capability_Service{
				Type: identity.Capability_Service_CONTROLLER_SERVICE,
			}}},
			{Type: &identity.Capability_ReclaimSpace_{ReclaimSpace: &identity.Capability_ReclaimSpace{
				Type: identity.Capability_ReclaimSpace_OFFLINE,
			}}},
		}}, nil
	case "ControllerReclaimSpace":
		a.calls.Add(1)
		a.most.Store(max(a.most.Load(), a.running.Add(1)))
		defer a.running.Add(-1)
		return &reclaimspace.ControllerReclaimSpaceResponse{}, nil
	}
	return nil, nil // the package answers then
}

// addJob creates a job that reclaims the volume, and returns a check of its end.
func (w *world) addJob() (ended func() error) {
	w.Helper()
	a := w.addons
	a.jobs++
	job := &v1alpha1.ReclaimSpaceJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: claimNamespace, Name: fmt.Sprintf("%sjob-%d", ownPrefix, a.jobs),
	}}
	job.Spec.Target.PersistentVolumeClaim = "chaos-claim"
	w.eventually(soon, func() error { return a.client.Create(w.Context(), job) })
	before := a.calls.Load()
	return func() error {
		err := a.client.Get(w.Context(), client.ObjectKeyFromObject(job), job)
		switch {
		case err != nil:
			return err
		case job.Status.Result == "":
			return fmt.Errorf("job %s has not ended", job.Name)
		case job.Status.Result != v1alpha1.OperationSucceeded:
			w.Fatalf("job %s ended with %+v", job.Name, job.Status)
		case a.calls.Load() == before || a.most.Load() > 1:
			w.Fatalf("the driver got %d calls, %d at the same time", a.calls.Load()-before,
				a.most.Load())
		}
		return nil
	}
}
