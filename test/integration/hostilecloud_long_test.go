//go:build integration && long

package integration

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// hostileAnswers returns malicious responses to requests for share types or for a token. Unit tests
// of pkg/openstack contain more.
func hostileAnswers() map[string]simulator.Answer {
	return map[string]simulator.Answer{
		"gzip bomb": {
			Gzip: true, Start: `{"share_types":["`, Body: strings.Repeat("x", 64<<10),
			Size: 1 << 30,
		},
		"garbage catalog": {Start: `{"token":{"catalog":[{"type":"sharev2","endpoints":[` +
			`{"interface":"public","region":"RegionOne",` +
			`"url":"http://leaked-user:leaked-word@127.0.0.1/v2"}]}]}}`},
	}
}

// leakedToken is the token in the hostile responses to logins.
const leakedToken = "leaked-token"

// TestSurvivesHostileCloud checks that no response crashes the operator, makes it use much memory,
// or changes the driver and its StorageClasses, and that a condition reports the problem.
func TestSurvivesHostileCloud(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: []string{"gold", "silver"}})
	e.secrets = append(e.secrets, "leaked-user", "leaked-word", leakedToken)
	e.awaitAvailable()
	e.awaitNoWrites()
	e.awaitPolls(10)
	quiet, pid := e.peakMemory(), e.operator.PID()
	before, err := e.classes()
	e.must(err)
	since := e.mark()
	for name, answer := range hostileAnswers() {
		e.sub(name, func(*testing.T) {
			for _, service := range []simulator.Service{simulator.Share, simulator.Identity} {
				e.mustHandle(service, answer)
			}
			after, err := e.classes()
			e.must(err)
			assert.Check(e.t, is.DeepEqual(before, after), "StorageClasses changed")
		})
	}
	e.expectNone("the operator wrote objects of the driver",
		e.requests(since, request.isWrite, notOfResource("clustercsidrivers", "events", "leases")))
	assert.Check(t, e.operator.PID() == pid && e.operator.Running(),
		"the operator process ended during the test")
	if peak := e.peakMemory(); peak > 2*quiet+64<<20 {
		t.Errorf("peak memory is %d MiB, but %d MiB with a healthy cloud", peak>>20, quiet>>20)
	} else {
		t.Logf("peak memory: %d MiB, %d MiB with a healthy cloud", peak>>20, quiet>>20)
	}
}

// mustHandle checks that the operator reports the response of a service and recovers.
func (e *env) mustHandle(service simulator.Service, answer simulator.Answer) {
	e.t.Helper()
	if service == simulator.Identity {
		if answer.Status == 0 {
			answer.Status = http.StatusCreated
		}
		header := map[string]string{"X-Subject-Token": leakedToken}
		for name, value := range answer.Header {
			header[name] = value
		}
		answer.Header = header
	}
	end := e.fault(simulator.Fault{Mode: simulator.Foreign, Service: service, Answer: &answer})
	if service == simulator.Identity {
		e.cloud.RevokeTokens() // so that the operator logs in
	}
	e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionFalse, "") })
	e.awaitPolls(2)
	e.must(e.available())
	message := e.message(reachable)
	if len(message) > 1000 ||
		strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) {
		e.t.Errorf("the message is too long or not printable: %.1000q", message)
	}
	end()
	if strings.Contains(message, "refused the token") { // the operator waits a minute for another one
		text := e.cloud.CloudsYAML(simulator.Clouds{})
		e.setClouds(fmt.Appendf(text, "# %d\n", e.cloud.Counters().Total()))
	}
	e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") })
}

var peakLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peakMemory returns the operator's peak resident memory in bytes.
func (e *env) peakMemory() int64 {
	e.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.operator.PID()))
	e.must(err)
	found := peakLine.FindSubmatch(status)
	assert.Assert(e.t, found != nil, "/proc does not contain the peak memory")
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	e.must(err)
	return kilobytes << 10
}
