//go:build e2e

package csiaddons

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/test/devcluster/audit"
)

// mostWrites and mostRequests are the most that a program may send for each fault, with the claims
// and jobs that wait for its end.
const mostWrites, mostRequests = 120, 1500

// mustHaveSentLittle checks what the operators and the programs of CSI-Addons sent since a time:
// the API server forbade nothing, they deleted nothing but CSIAddonsNodes, and the numbers of
// requests and of writes, except those of Leases, have bounds.
func (f *faults) mustHaveSentLittle(since time.Time, faults int) {
	f.T.Helper()
	log := f.Cluster.Environments()[0].Dir.AuditLog()
	for _, program := range []string{
		"manila-csi-driver-operator", "openstack-cinder-csi-driver-operator",
		"csi-addons-controller", "csi-addons-sidecar",
	} {
		events, err := audit.Read(log, since, func(line []byte) bool {
			return bytes.Contains(line, []byte(`"userAgent":"`+program+`/`))
		})
		f.Must(err)
		writes := 0
		for _, e := range events {
			object := ptr.Deref(e.ObjectRef, auditv1.ObjectReference{})
			code := ptr.Deref(e.ResponseStatus, metav1.Status{}).Code
			assert.Check(f.T, code != http.StatusForbidden,
				"%s: the API server forbade %s %s", program, e.Verb, e.RequestURI)
			// An operator that starts deletes what it does not need now, and what need not exist.
			assert.Check(f.T, !strings.HasPrefix(e.Verb, "delete") || code == http.StatusNotFound ||
				object.Resource == "csiaddonsnodes", "%s deletes: %s %s", program, e.Verb, e.RequestURI)
			// Kubernetes stores nothing of a review.
			if !slices.Contains([]string{"get", "list", "watch"}, e.Verb) &&
				!strings.HasSuffix(object.Resource, "reviews") && object.Resource != "leases" {
				writes++
			}
		}
		f.T.Logf("%s: %d writes of %d requests", program, writes, len(events))
		if len(events) == 0 || writes > faults*mostWrites || len(events) > faults*mostRequests {
			f.T.Errorf("%s sent %d writes and %d requests during %d faults", program, writes,
				len(events), faults)
		}
	}
}
