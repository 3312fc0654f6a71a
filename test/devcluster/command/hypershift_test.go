//go:build integration

package command

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

const hostedNamespace = "clusters-guest-1"

// hosted is a running management cluster with one guest cluster.
type hosted struct {
	dir, guestDir     paths.Dir
	management, guest kubernetes.Interface
}

func TestHypershift(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	out := mustRun(t, dir, "up", "--flavour=hypershift", "--tls", "--drivers=manila,cinder")
	h := hosted{dir: dir, guestDir: dir.Guest("guest-1")}
	for _, want := range []paths.Dir{h.dir, h.guestDir} {
		if !strings.Contains(out, "export KUBECONFIG="+want.AdminKubeconfig()) {
			t.Errorf("up does not say how to reach %s:\n%s", want, out)
		}
	}
	if status := mustRun(t, dir, "status"); !strings.Contains(status, h.guestDir.AdminKubeconfig()) {
		t.Errorf("status does not name the guest cluster:\n%s", status)
	}
	h.management, h.guest = client(t, h.dir.AdminKubeconfig()), client(t, h.guestDir.AdminKubeconfig())
	h.checkNodes(t)
	h.checkUsers(t)
	h.checkFiles(t)
	h.checkGuestKubeconfig(t)
	h.checkCredentials(t)
	for _, side := range []string{"management", "guest"} {
		for how, isAway := range map[string]func(error) bool{"refuse": isRefused, "hang": isHanging} {
			h.checkOutage(t, side, how, isAway)
		}
	}
	// A cluster that hangs can be stopped.
	mustRun(t, dir, "api", "stop", "--side=guest", "--how=hang")
	mustRun(t, dir, "down")
}

func (h hosted) checkNodes(t *testing.T) {
	t.Helper()
	for name, test := range map[string]struct {
		client kubernetes.Interface
		want   string
	}{
		"management": {
			h.management, "devcluster-master-0 devcluster-master-1 devcluster-master-2 " +
				"devcluster-worker-0 devcluster-worker-1",
		},
		"guest": {h.guest, "guest-1-worker-0 guest-1-worker-1"},
	} {
		nodes, err := test.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, node := range nodes.Items {
			names = append(names, node.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("nodes of %s are %s, want %s", name, got, test.want)
		}
	}
}

// checkUsers checks the user of each kubeconfig, and that its permissions end at its side.
func (h hosted) checkUsers(t *testing.T) {
	t.Helper()
	const manila, cinder = "manila-csi-driver-operator", "openstack-cinder-csi-driver-operator"
	const accounts = "system:serviceaccount:clusters-guest-1:"
	for kubeconfig, want := range map[string]string{
		h.guestDir.AdminKubeconfig():  "admin",
		h.guestDir.GuestKubeconfig():  "system:admin",
		h.guestDir.Kubeconfig(manila): accounts + manila,
		h.guestDir.Kubeconfig(cinder): accounts + cinder,
	} {
		review, err := client(t, kubeconfig).AuthenticationV1().SelfSubjectReviews().Create(
			t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || review.Status.UserInfo.Username != want {
			t.Errorf("the user of %s is %v, %v; want %s", kubeconfig, review, err, want)
		}
	}
	operator := client(t, h.guestDir.Kubeconfig(manila))
	for namespace, want := range map[string]bool{
		hostedNamespace: true, "kube-system": false, "": false,
	} {
		review, err := operator.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: "list", Group: "hypershift.openshift.io",
						Resource: "hostedcontrolplanes",
					},
				},
			}, metav1.CreateOptions{})
		if err != nil || review.Status.Allowed != want {
			t.Errorf("the operator may look for hosted control planes in %q: %v, %v; want %t",
				namespace, review, err, want)
		}
	}
}

// checkFiles checks the operators' files.
func (h hosted) checkFiles(t *testing.T) {
	t.Helper()
	for path, want := range map[string]string{
		h.guestDir.OperatorEnv("manila-csi-driver-operator"):              "DRIVER_CONTROL_PLANE_IMAGE=",
		h.guestDir.OperatorConfig("openstack-cinder-csi-driver-operator"): "bindAddress: 127.0.0.1:",
		h.guestDir.OpenStackClouds():                                      "auth_url",
		h.guestDir.OpenStackCA() + "/ca-bundle.pem":                       "BEGIN CERTIFICATE",
		h.guestDir.AuditLog():                                             `"username":"system:admin"`,
	} {
		eventually(t, path+" has "+want, func(context.Context) (bool, error) {
			content, err := os.ReadFile(path)
			return strings.Contains(string(content), want), err
		})
	}
	for _, path := range []string{
		h.dir.OpenStack(), h.dir.OperatorEnv("manila-csi-driver-operator"),
	} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the management cluster has %s: %v", path, err)
		}
	}
}

func (h hosted) checkGuestKubeconfig(t *testing.T) {
	t.Helper()
	before := read(t, h.guestDir.GuestKubeconfig())
	mustRun(t, h.dir, "guest", "rotate-kubeconfig")
	eventually(t, "the file is the new Secret", func(ctx context.Context) (bool, error) {
		secret, err := h.management.CoreV1().Secrets(hostedNamespace).Get(ctx,
			"service-network-admin-kubeconfig", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		now := string(secret.Data["kubeconfig"])
		return now != before && read(t, h.guestDir.GuestKubeconfig()) == now, nil
	})
	if _, err := client(t, h.guestDir.GuestKubeconfig()).Discovery().ServerVersion(); err != nil {
		t.Errorf("the new kubeconfig is of no use: %v", err)
	}
	if out, code := devcluster(h.dir, "guest", "rotate-kubeconfig", "--guest=guest-2"); code == 0 {
		t.Errorf("a missing cluster has a new kubeconfig:\n%s", out)
	}
}

// checkCredentials checks that both sides get new credentials.
func (h hosted) checkCredentials(t *testing.T) {
	t.Helper()
	clouds := func() string { return read(t, h.guestDir.OpenStackClouds()) }
	before := clouds()
	mustRun(t, h.dir, "cloud", "rotate-credentials")
	eventually(t, "the operators have new credentials",
		func(context.Context) (bool, error) { return clouds() != before, nil })
	for _, place := range []struct {
		client          kubernetes.Interface
		namespace, name string
	}{
		{h.management, hostedNamespace, "openstack-cloud-credentials"},
		{h.management, hostedNamespace, "manila-cloud-credentials"},
		{h.guest, "openshift-cluster-csi-drivers", "openstack-cloud-credentials"},
		{h.guest, "openshift-manila-csi-driver", "manila-cloud-credentials"},
	} {
		secret, err := place.client.CoreV1().Secrets(place.namespace).Get(t.Context(), place.name,
			metav1.GetOptions{})
		if err != nil || string(secret.Data["clouds.yaml"]) != clouds() ||
			len(secret.Data["cacert"]) == 0 {
			t.Errorf("Secret %s/%s is not the new one: %v", place.namespace, place.name, err)
		}
	}
}

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func isHanging(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// checkOutage checks that one API server stops and starts again with its data, and that the other
// keeps running.
func (h hosted) checkOutage(t *testing.T, side, how string, isAway func(error) bool) {
	t.Helper()
	stopped, other := h.management, h.guest
	if side == "guest" {
		stopped, other = other, stopped
	}
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "note-" + how}}
	_, err := stopped.CoreV1().ConfigMaps("default").Create(t.Context(), note, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	look := func(c kubernetes.Interface) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return c.CoreV1().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	}
	mustRun(t, h.dir, "api", "stop", "--side="+side, "--how="+how)
	out, code := devcluster(h.dir, "api", "stop", "--side="+side)
	if code == 0 || !strings.Contains(out, "away already") {
		t.Errorf("the API server of %s was stopped twice:\n%s", side, out)
	}
	if err := look(stopped); !isAway(err) {
		t.Errorf("%s of %s gives %v", how, side, err)
	}
	if err := look(other); err != nil {
		t.Errorf("while %s is away, the other side says %v", side, err)
	}
	mustRun(t, h.dir, "api", "start", "--side="+side)
	_, err = stopped.CoreV1().ConfigMaps("default").Get(t.Context(), note.Name, metav1.GetOptions{})
	if err != nil {
		t.Errorf("%s came back without its data: %v", side, err)
	}
	checkAwake(t, stopped, how)
	out, code = devcluster(h.dir, "api", "start", "--side="+side)
	if code == 0 || !strings.Contains(out, "not away") {
		t.Errorf("the API server of %s was started twice:\n%s", side, out)
	}
}

// checkAwake checks that the other components run again: a pod needs a service account, a node and
// a kubelet.
func checkAwake(t *testing.T, c kubernetes.Interface, how string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "after-" + how}}
	_, err := c.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "awake"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
	eventually(t, "a pod is accepted", func(ctx context.Context) (bool, error) {
		_, err := c.CoreV1().Pods(namespace.Name).Create(ctx, pod, metav1.CreateOptions{})
		return err == nil, nil // without the account it is refused
	})
	eventually(t, "a pod runs", func(ctx context.Context) (bool, error) {
		got, err := c.CoreV1().Pods(namespace.Name).Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && got.Status.Phase == corev1.PodRunning, err
	})
}

func TestRunServesSeveralGuests(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first, second := dir.Guest("guest-1"), dir.Guest("guest-2")
	checkRun(t, dir, []string{
		"export KUBECONFIG=" + second.AdminKubeconfig(),
		"starting manila-operator of guest-1, which logs to " + first.OperatorLog("manila-operator"),
		"starting cinder-operator of guest-2, which logs to " + second.OperatorLog("cinder-operator"),
		"cluster guest-1 waits: ", "cluster guest-1 is ready", "cluster guest-2 is ready",
	}, "--flavour=hypershift", "--guests=2")
}
