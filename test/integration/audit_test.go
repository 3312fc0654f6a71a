//go:build integration

package integration

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

// TestCancelledRequestsAreNotRefused reads the logs of an API server that authenticated a request
// while its client ended, and then refused a token.
func TestCancelledRequestsAreNotRefused(t *testing.T) {
	t.Parallel()
	const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata",` +
		`"stage":"ResponseStarted","requestURI":%q,"verb":"list","user":{},` +
		`"userAgent":"cinder-operator/v0.0.0","responseStatus":{"metadata":{},"status":"Failure",` +
		`"message":"Unauthorized","reason":"Unauthorized","code":401},` +
		`"requestReceivedTimestamp":%q,"stageTimestamp":%q}` + "\n"
	const reason = `%s   4242 authentication.go:75] "Unable to authenticate the request" err=%q` + "\n"
	var audit, log string
	received := time.Date(2026, time.November, 23, 12, 0, 0, 0, time.Local)
	for uri, err := range map[string]string{
		"/cancelled": "[invalid bearer token, context canceled]", "/refused": "invalid bearer token",
	} {
		failed, answered := received.Add(time.Millisecond), received.Add(2*time.Millisecond)
		audit += fmt.Sprintf(event, uri, received.UTC().Format(metav1.RFC3339Micro),
			answered.UTC().Format(metav1.RFC3339Micro))
		log += fmt.Sprintf(reason, failed.Format("E0102 15:04:05.000000"), err)
		received = answered
	}
	s, dir := &scope{t: t}, paths.Dir(t.TempDir())
	s.must(paths.WriteFile(dir.AuditLog(), []byte(audit)))
	s.must(paths.WriteFile(filepath.Join(dir.Logs(), "kube-apiserver.log"), []byte(log)))
	found, err := (&cluster{dir: dir}).requestsSince(0, sender{"system:admin", "cinder-operator"})
	s.must(err)
	assert.Check(t, len(found) == 1 && found[0].URI == "/refused",
		"the refused requests are %v, want one", found)
}
