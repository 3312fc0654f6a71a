//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// The hosted cluster, its control plane, and what HyperShift puts there.
const (
	guestName       = "guest-1"
	hostedNamespace = "clusters-" + guestName
	guestAdmin      = "system:admin"
	kubeconfigKey   = "kubeconfig"
	guestAccess     = "service-network-admin-kubeconfig"
	hostedCloudCA   = "openstack-cloud-config"
)

func hostedControlPlanes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "hypershift.openshift.io", Version: "v1beta1", Resource: "hostedcontrolplanes"}
}

// controlPlane is what is in the namespace of the hosted control plane before an operator runs.
func controlPlane() []place {
	return []place{
		{hostedControlPlanes(), hostedNamespace},
		{secrets(), hostedNamespace},
		{configMaps(), hostedNamespace},
		{resource("apps", "deployments"), hostedNamespace},
		{resource("", "serviceaccounts"), hostedNamespace},
	}
}

// hosted is options for a hosted control plane.
func hosted(o options) options {
	o.Flavour = flavour.HyperShift
	return o
}

// newHosted is newEnv for an operator of a hosted control plane.
func newHosted(t *testing.T, s subject, o options) *env {
	t.Helper()
	o.Subject = s
	return newEnv(t, hosted(o))
}

// eachHosted runs a test for each operator, in an environment of its own.
func eachHosted(t *testing.T, o options, test func(t *testing.T, e *env)) {
	t.Helper()
	for _, s := range []subject{manila(), cinder()} {
		t.Run(s.program, func(t *testing.T) {
			t.Parallel()
			test(t, newHosted(t, s, o))
		})
	}
}

// guestKubeconfig is the path of the file with which the operators reach the guest.
func (c *devcluster) guestKubeconfig() string {
	return filepath.Join(c.site, "guest-kubeconfig", kubeconfigKey)
}

// awaitGuestKubeconfig waits until that file has the content of the Secret that is mounted there.
func (e *env) awaitGuestKubeconfig() {
	e.t.Helper()
	e.eventually(soon, func() error {
		secret, err := e.management.kube.CoreV1().Secrets(hostedNamespace).Get(e.ctx(), guestAccess, metav1.GetOptions{})
		if err != nil {
			return err
		}
		content, err := os.ReadFile(e.guestKubeconfig())
		if err == nil && !bytes.Equal(content, secret.Data[kubeconfigKey]) {
			err = errors.New("the guest's kubeconfig is not yet that of the Secret")
		}
		return err
	})
}

// setHostedCA writes the CA that HyperShift gives to a control plane, and the file as which the operator mounts it; nil removes it.
func (e *env) setHostedCA(ca []byte) {
	e.t.Helper()
	if ca == nil {
		e.must(e.management.kube.CoreV1().ConfigMaps(hostedNamespace).Delete(e.ctx(), hostedCloudCA, metav1.DeleteOptions{}))
		e.must(os.Remove(e.caBundlePath))
		return
	}
	e.must(e.management.putConfigMap(e.ctx(), hostedNamespace, hostedCloudCA, map[string]string{caKeyOfCloudProvider: string(ca)}))
	e.must(writeFile(e.caBundlePath, ca))
}

// patchBeside merges JSON into an object beside the driver's controllers.
func (e *env) patchBeside(resource schema.GroupVersionResource, name, text string) {
	e.t.Helper()
	e.must(e.management.patch(e.ctx(), place{resource, e.subject.controllerNamespace}, name, text))
}

// patchControlPlane merges JSON into the HostedControlPlane's spec.
func (e *env) patchControlPlane(spec string) {
	e.t.Helper()
	e.patchBeside(hostedControlPlanes(), guestName, `{"spec":`+spec+`}`)
}

// addControlPlane makes one more HostedControlPlane.
func (e *env) addControlPlane(name string) {
	e.t.Helper()
	object := unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedControlPlane", "spec": map[string]any{},
	}}
	object.SetNamespace(hostedNamespace)
	object.SetName(name)
	_, err := e.management.create(e.ctx(), hostedControlPlanes(), object)
	e.must(err)
}

func (e *env) deleteControlPlane(name string) {
	e.t.Helper()
	e.must(e.management.dynamic.Resource(hostedControlPlanes()).Namespace(hostedNamespace).Delete(e.ctx(), name, metav1.DeleteOptions{}))
}

// api has the devcluster stop or start the API server of a side. What is stopped comes back after the test at the latest.
func (e *env) api(action string, s *side, args ...string) {
	e.t.Helper()
	e.must(e.command(e.ctx(), append([]string{"api", action, "--side=" + s.name}, args...)...))
}

// awayAPI takes the API server of a side away and returns what brings it back.
func (e *env) awayAPI(s *side, how string) (back func()) {
	e.t.Helper()
	e.api("stop", s, "--how="+how)
	away := true
	e.afterwards(func(ctx context.Context) error {
		if !away {
			return nil
		}
		return e.command(ctx, "api", "start", "--side="+s.name)
	})
	return func() {
		e.t.Helper()
		began := time.Now()
		e.api("start", s)
		away = false
		e.allowWhileStarting(s, began)
	}
}

// allowWhileStarting lets a side refuse requests for a moment: an API server that starts does not know yet which tokens are valid and
// who may do what.
func (e *env) allowWhileStarting(s *side, began time.Time) {
	before, until := e.allowed, time.Now().Add(10*time.Second)
	e.allowed = func(r request) bool {
		return before != nil && before(r) || r.Side == s && r.Time.After(began) && r.Time.Before(until)
	}
}

// unchanged returns nil if nothing of the driver's workloads has changed but what has nothing to do with its pods.
func (e *env) unchanged(before map[string]workload) error {
	for name, was := range before {
		now, err := e.workload(name)
		if err != nil {
			return err
		}
		if now.Generation != was.Generation {
			return fmt.Errorf("%s has generation %d after %d", name, now.Generation, was.Generation)
		}
	}
	return nil
}
