//go:build integration && (long || bench)

package csiaddons

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
	"github.com/openstack-csi/csi-operator/test/devcluster/audit"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// startProcess starts the program of the controller, with the identity of its ServiceAccount.
func (w *world) startProcess(args ...string) *process.Process {
	w.Helper()
	content, err := w.plane.Issue(managerUser, "system:serviceaccounts",
		"system:serviceaccounts:"+systemNamespace, "system:authenticated")
	w.must(err)
	dir := w.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	w.must(os.WriteFile(kubeconfig, content, 0o600))
	log := filepath.Join(dir, "controller.log")
	p, err := process.Start(process.Options{
		Name: "csi-addons-controller", Log: log, Env: append(os.Environ(), w.environment()...),
		Path: filepath.Join(cmp.Or(os.Getenv("BIN_DIR"), "../../bin"), "csi-addons-controller"),
		Args: append([]string{
			"--kubeconfig=" + kubeconfig, "--namespace=" + systemNamespace, "--pod=" + w.pod,
			"--health-probe-bind-address=0", "--driver-namespaces=cinder=" + driverNamespace,
		}, args...),
	})
	w.must(err)
	w.Cleanup(func() {
		p.Stop(time.Minute)
		if w.Failed() {
			text, err := os.ReadFile(log)
			w.Logf("%v\n%s", err, text[max(0, len(text)-10_000):])
		}
	})
	return p
}

// environment returns the environment variables of the controller in its Deployment.
func (w *world) environment() []string {
	w.Helper()
	deployment := &appsv1.Deployment{}
	w.must(w.client.Get(w.Context(), types.NamespacedName{
		Namespace: systemNamespace, Name: controller.DeploymentName,
	}, deployment))
	var variables []string
	for _, one := range deployment.Spec.Template.Spec.Containers[0].Env {
		if one.ValueFrom == nil {
			variables = append(variables, one.Name+"="+one.Value)
		}
	}
	return variables
}

// request is a kind of request in the audit log. The resource contains the subresource.
type request struct{ verb, resource string }

// requests counts the requests of the controller in the audit log since the test began.
func (w *world) requests() map[request]int {
	w.Helper()
	events, err := audit.Read(w.dir.AuditLog(), w.began, func(line []byte) bool {
		return bytes.Contains(line, []byte(managerUser))
	})
	w.must(err)
	counts := map[request]int{}
	for _, e := range events {
		impersonated := e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == managerUser
		if e.User.Username != managerUser && !impersonated {
			continue
		}
		object := ptr.Deref(e.ObjectRef, auditv1.ObjectReference{})
		one := request{verb: e.Verb, resource: object.Resource}
		if object.Subresource != "" {
			one.resource += "/" + object.Subresource
		}
		counts[one]++
	}
	return counts
}
