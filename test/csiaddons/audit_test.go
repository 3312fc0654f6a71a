//go:build integration && (long || bench)

package csiaddons

import (
	"bytes"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/test/devcluster/audit"
)

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
