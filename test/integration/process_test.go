//go:build integration

package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// leaseHolder returns the identity of the leader, or "".
func (e *env) leaseHolder() (string, error) {
	lease, err := e.management.kube.CoordinationV1().Leases(e.management.namespace).
		Get(e.ctx(), e.subject.Component+"-lock", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

// isLed returns nil if there is a leader, or if there is none.
func (e *env) isLed(want bool) error {
	holder, err := e.leaseHolder()
	if err == nil && (holder != "") != want {
		err = fmt.Errorf("the leader is %q", holder)
	}
	return err
}

// releasesLeaseAtEnd checks that the next operator becomes the leader without waiting.
func (e *env) releasesLeaseAtEnd() {
	e.awaitAvailable()
	first, err := e.leaseHolder()
	e.must(err)
	assert.Check(e.t, first != "", "there is no leader")
	e.stopOperator()
	e.must(e.isLed(false))
	e.startOperator()
	e.eventually(prompt, func() error { return e.isLed(true) })
	second, err := e.leaseHolder()
	e.must(err)
	assert.Check(e.t, second != first, "both operators have the identity %s", second)
}

// endsForChangedConfig checks that the next process reads the new configuration.
func (e *env) endsForChangedConfig() {
	e.awaitAvailable()
	e.setConfig("  minTLSVersion: VersionTLS13\n")
	e.awaitEnd()
	e.must(e.isLed(false))
	e.startOperator()
	e.eventually(soon, func() error { return e.isLed(true) })
	e.awaitAvailable()
}

// servesHealthAndMetrics checks that health is public and that metrics need RBAC.
func (e *env) servesHealthAndMetrics() {
	e.mustServeEndpoints()
	e.eventually(soon, func() error {
		got, err := e.metric("openshift_cluster_csi_drivers_build_info")
		return errors.Join(err, checkEqual(1, got))
	})
}

// httpCheck is a request to the operator and the expected status.
type httpCheck struct {
	path, token string
	want        int
}

func (e *env) mustServeEndpoints(more ...httpCheck) {
	e.t.Helper()
	e.awaitAvailable()
	prometheus, err := e.prometheusToken(e.ctx())
	e.must(err)
	node := ofSubject(e.subject, nodeAccount, cinderNode+"-sa")
	foreign, err := e.guest.kube.CoreV1().ServiceAccounts(e.subject.OperandNamespace).
		CreateToken(e.ctx(), node, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	e.must(err)
	for _, c := range append([]httpCheck{
		{"/healthz", "", http.StatusOK},
		{"/readyz", "", http.StatusOK},
		{"/livez", "", http.StatusOK},
		{"/metrics", "", http.StatusUnauthorized},
		{"/metrics", "no-token", http.StatusUnauthorized},
		{"/metrics", foreign.Status.Token, http.StatusForbidden},
		{"/metrics", prometheus, http.StatusOK},
	}, more...) {
		e.eventually(soon, func() error { // on a busy machine, keys and reviews take seconds
			got, _, err := e.get(c.path, c.token)
			if err == nil && got != c.want {
				err = fmt.Errorf("%s returned %d, want %d", c.path, got, c.want)
			}
			return err
		})
	}
}

// mustSettle waits until the driver is available and checks that the idle operator writes nothing
// and reads almost nothing.
func (e *env) mustSettle() {
	e.t.Helper()
	e.awaitAvailable()
	since := e.awaitNoWrites()
	e.awaitPollTime(5)
	e.expectNone("the operator wrote", e.requests(since, request.isWrite))
	reads := map[string]int{}
	for _, r := range e.requests(since, ofVerb("get"), notOfResource("leases")) {
		reads[r.Cluster.name+": "+r.Resource+" "+r.Namespace+"/"+r.Name]++
	}
	took := time.Since(since.time)
	for object, n := range reads {
		assert.Check(e.t, n <= 1+int(took/time.Minute),
			"%s was read %d times in %v, want once a minute at most", object, n, took)
	}
	e.expectNone("the operator listed objects that it watches", e.requests(since, ofVerb("list")))
}

// awaitPollTime waits for n poll intervals.
func (e *env) awaitPollTime(n int) {
	e.t.Helper()
	if e.subject.isManila() {
		e.awaitPolls(n)
		return
	}
	// Cinder's operator probes only after changes.
	e.expectNoWritesFor(time.Duration(n) * e.options.PollInterval)
}

// documentedCommand returns the arguments of the command of docs/conditions.md that removes all
// conditions after a rollback: the ClusterCSIDriver and the patch.
func documentedCommand(t *testing.T) (driver, patch string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "conditions.md"))
	assert.NilError(t, err)
	documented := `kubectl patch clustercsidriver (\S+) --subresource=status --type=merge -p '(.*)'`
	command := regexp.MustCompile(documented).FindStringSubmatch(string(text))
	assert.Assert(t, command != nil, "the documentation contains no command")
	return command[1], command[2]
}

func TestOperatorRunsAndEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: []string{"default", "foo_bar", "foo-bar", "Not A Name!"}})
	e.parts(
		part{"Settles", e.mustSettle},
		part{"ServesHealthAndMetrics", e.servesHealthAndMetrics},
		part{"WritesConditionsAfterDocumentedCommand", e.writesConditionsAfterDocumentedCommand},
		part{"ReleasesLeaseAtEnd", e.releasesLeaseAtEnd},
		part{"EndsForChangedConfig", e.endsForChangedConfig},
	)
}

// writesConditionsAfterDocumentedCommand checks that the operator writes its conditions again.
func (e *env) writesConditionsAfterDocumentedCommand() {
	driver, patch := documentedCommand(e.t)
	assert.Assert(e.t, driver == driverName, "the documented command is for %s", driver)
	e.awaitAvailable()
	const foreign = "OfAnotherOperatorDegraded"
	e.addTrueConditions("Left", "of another operator", foreign)
	before, err := e.conditions()
	e.must(err)
	const late = "ManilaSnapshotsServed" // the operator writes it every five minutes
	delete(before, foreign)
	delete(before, late)
	e.patch(clusterCSIDrivers(), "", driver, patch, "status")
	e.eventually(soon, func() error {
		after, err := e.conditions()
		if err != nil {
			return err
		}
		delete(after, late)
		return checkEqual(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	})
	e.awaitAvailable()
}
