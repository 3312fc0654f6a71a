package openstack

import (
	"net/http"
	"testing"
	"time"
)

func TestRenewalsThatDoNotHelpAreDelayed(t *testing.T) {
	t.Parallel()
	var r renewal
	now := time.Unix(0, 0)
	for _, minutes := range []int{1, 2, 4, 8, 15, 15} {
		delay := time.Duration(minutes) * time.Minute
		if !r.mayRepeat(now) {
			t.Fatalf("no renewal after the delay before %v", delay)
		}
		r.begin("a", now)
		r.observe("", http.StatusCreated) // a login
		r.observe("another", http.StatusOK)
		r.observe("a", http.StatusUnauthorized)
		r.observe("a", http.StatusOK) // of another service, whose requests a rule permits
		now = now.Add(delay)
		if r.mayRepeat(now.Add(-1)) {
			t.Fatalf("a renewal before the delay of %v ends", delay)
		}
	}
	r.begin("a", now)
	r.observe("a", http.StatusOK)
	r.observe("a", http.StatusUnauthorized) // the token has expired or is revoked
	if !r.mayRepeat(now) {
		t.Fatal("no renewal of a token that was accepted")
	}
	r.begin("b", now)
	r.observe("b", http.StatusUnauthorized)
	if r.mayRepeat(now.Add(firstDelay-1)) || !r.mayRepeat(now.Add(firstDelay)) {
		t.Error("the first delay is not that of a refused login")
	}
}
