//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const shareTypesCall = "GET /share/v2/types"

func TestStartsDriversIfManilaIsFound(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: []string{"default", "gold"}})
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasClasses("csi-manila-default", "csi-manila-gold") })
	e.eventually(soon, func() error { return e.hasCondition("ManilaCloudReachable", "True", "") })
	e.eventually(soon, func() error { return e.hasEvent("ManilaFound") })
	e.must(e.hasNoCondition("ManilaControllerDisabled"))
}

func TestProbesAtStartAndThenEachMinute(t *testing.T) {
	t.Parallel()
	_, help := runOperator(t, installed, nil, "start", "--help")
	if !strings.Contains(help, "--poll-interval") || !strings.Contains(help, "default 1m0s") {
		t.Errorf("start --help does not contain the default 1m0s of --poll-interval:\n%s", help)
	}
	e := newEnv(t, options{PollInterval: -1})
	e.awaitAvailable()
	e.awaitNoWrites()
	probes := e.cloud.Counters().Calls[shareTypesCall]
	took := time.Since(e.operator.started.began)
	if most := 1 + int(took/time.Minute); probes < 1 || probes > most {
		t.Errorf("the operator probed the cloud %d times in %v, want once and then each minute",
			probes, took)
	}
}

func TestLogsInOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.parts(
		part{"ProbesWithOneRequest", e.probesWithOneRequest},
		part{"LogsInOnceForRevokedToken", e.logsInOnceForRevokedToken},
		part{"KeepsDriverForInvalidCloudsYAML", e.keepsDriverForInvalidCloudsYAML},
		part{"UsesRotatedCredentials", e.usesRotatedCredentials},
	)
}

// probesWithOneRequest checks that the operator logs in once while its token is valid.
func (e *env) probesWithOneRequest() {
	e.awaitAvailable()
	e.awaitNoWrites()
	e.expectNoWritesDuring(5)
	before, err := e.polls()
	e.must(err)
	counters := e.cloud.Counters()
	after, err := e.polls()
	e.must(err)
	// The operator may have sent the request of a poll that was not complete.
	if n := float64(counters.Calls[shareTypesCall]); n < before || n > after+1 {
		e.t.Errorf("%v requests for share types during %v to %v polls, want one each", n, before, after)
	}
	if counters.LoginAttempts != 1 {
		e.t.Errorf("%d logins, want 1", counters.LoginAttempts)
	}
	others := counters.Total() - counters.Calls[shareTypesCall] - counters.LoginAttempts
	if others > 2 {
		e.t.Errorf("%d requests are neither logins nor lists of share types, want at most the discovery "+
			"of the identity service: %v", others, counters.Calls)
	}
}

// logsInOnceForRevokedToken checks that the operator reports nothing.
func (e *env) logsInOnceForRevokedToken() {
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	revoked := e.cloud.RevokeTokens()
	if revoked != 1 {
		e.t.Errorf("the operator held %d tokens, want 1", revoked)
	}
	e.eventually(soon, func() error {
		if logins := e.cloud.Counters().Logins; logins != 2 {
			return fmt.Errorf("there were %d logins, want a second", logins)
		}
		return nil
	})
	e.awaitPolls(3)
	if attempts := e.cloud.Counters().LoginAttempts; attempts != 2 {
		e.t.Errorf("%d logins, want 2", attempts)
	}
	e.expectNone("the operator wrote after a new login", e.writes(since))
	e.must(e.available())
}

func TestLogsInWhenTokenExpires(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Cloud: simulator.Config{TokenTTL: 3 * time.Second}})
	e.awaitAvailable()
	start, first := time.Now(), e.cloud.Counters().LoginAttempts
	logins := 0
	e.eventually(soon, func() error {
		if logins = e.cloud.Counters().LoginAttempts - first; logins < 2 {
			return fmt.Errorf("%d logins, want 2", logins)
		}
		return nil
	})
	if most := int(time.Since(start)/(3*time.Second)) + 1; logins > most {
		t.Errorf("%d logins in %v with tokens of 3 s, want %d", logins, time.Since(start), most)
	}
	e.must(e.available())
}
