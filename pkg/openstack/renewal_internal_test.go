package openstack

import (
	"net/http"
	"testing"
	"time"
)

func TestRenewalsThatDoNotHelpAreDelayed(t *testing.T) {
	t.Parallel()
	answer := func(token string, status int) *http.Response {
		request := &http.Request{Header: http.Header{"X-Auth-Token": {token}}}
		return &http.Response{StatusCode: status, Request: request}
	}
	var r renewal
	now := time.Unix(0, 0)
	for _, delay := range []time.Duration{1, 2, 4, 8, 15, 15} {
		if !r.mayRepeat(now) {
			t.Fatalf("no renewal after the delay before %d min", delay)
		}
		r.begin("a", now)
		r.observe(nil)
		r.observe(answer("another", http.StatusOK))
		r.observe(answer("a", http.StatusUnauthorized))
		r.observe(answer("a", http.StatusOK)) // of another service, whose requests a rule permits
		now = now.Add(delay * time.Minute)
		if r.mayRepeat(now.Add(-1)) {
			t.Fatalf("a renewal before the delay of %d min ends", delay)
		}
	}
	r.begin("a", now)
	r.observe(answer("a", http.StatusOK))
	r.observe(answer("a", http.StatusUnauthorized)) // the token has expired or is revoked
	if !r.mayRepeat(now) {
		t.Fatal("no renewal of a token that was accepted")
	}
	r.begin("b", now)
	r.observe(answer("b", http.StatusUnauthorized))
	if r.mayRepeat(now.Add(firstDelay-1)) || !r.mayRepeat(now.Add(firstDelay)) {
		t.Error("the first delay is not that of a refused login")
	}
}
