//go:build integration

package integration

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Names of the guest cluster, its control plane, and the objects that HyperShift creates there.
const (
	guestName             = "guest-1"
	hostedNamespace       = "clusters-" + guestName
	guestAdmin            = "system:admin"
	kubeconfigKey         = "kubeconfig"
	guestKubeconfigSecret = "service-network-admin-kubeconfig"
	hostedCloudCA         = "openstack-cloud-config"
)

func hostedControlPlanes() schema.GroupVersionResource {
	return schema.GroupVersionResource{
		Group: "hypershift.openshift.io", Version: "v1beta1", Resource: "hostedcontrolplanes",
	}
}

// hostedEnv is the environment of an operator of a hosted control plane.
type hostedEnv struct{ *env }

// newHosted is newEnv for an operator of a hosted control plane.
func newHosted(t *testing.T, s subject, o options) *hostedEnv {
	t.Helper()
	o.Subject, o.Flavour = s, flavour.HyperShift
	return &hostedEnv{newEnv(t, o)}
}

// eachHosted runs a test for each operator, in an environment of its own. Without the tag long it
// runs the test for the operator in the options.
func eachHosted(t *testing.T, o options, test func(t *testing.T, e *hostedEnv)) {
	t.Helper()
	all := []subject{o.Subject}
	if long {
		all = subjects()
	}
	for _, s := range all {
		t.Run(s.Program, func(t *testing.T) {
			t.Parallel()
			test(t, newHosted(t, s, o))
		})
	}
}

// awaitGuestKubeconfig waits until that file has the content of the Secret that is mounted there.
func (e *env) awaitGuestKubeconfig(bound time.Duration) {
	e.t.Helper()
	e.eventually(bound, func() error {
		secret, err := e.management.kube.CoreV1().Secrets(hostedNamespace).
			Get(e.ctx(), guestKubeconfigSecret, metav1.GetOptions{})
		if err != nil {
			return err
		}
		content, err := os.ReadFile(e.podDir.GuestKubeconfig(e.subject.Name))
		if err == nil && !bytes.Equal(content, secret.Data[kubeconfigKey]) {
			err = errors.New("the file does not contain the Secret's kubeconfig yet")
		}
		return err
	})
}

// setHostedCA writes the ConfigMap in which HyperShift passes the CA to a control plane.
func (e *env) setHostedCA(ca []byte) {
	e.t.Helper()
	data := map[string]string{caKeyOfCloudProvider: string(ca)}
	e.must(e.management.putConfigMap(e.ctx(), hostedNamespace, hostedCloudCA, data))
}

// patchBesideController merges JSON into an object in the namespace of the driver's Deployment.
func (e *env) patchBesideController(resource schema.GroupVersionResource, name, text string) {
	e.t.Helper()
	in := collection{resource, e.subject.controllerNamespace}
	e.must(e.management.patch(e.ctx(), in, name, text))
}

// patchControlPlane merges JSON into the HostedControlPlane's spec.
func (e *env) patchControlPlane(spec string) {
	e.t.Helper()
	e.patchBesideController(hostedControlPlanes(), guestName, `{"spec":`+spec+`}`)
}
