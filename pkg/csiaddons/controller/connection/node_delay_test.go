package connection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDelayOfConnectionsDoublesToMinutes(t *testing.T) {
	t.Parallel()
	r := &Reconciler{RetryDelay: 5 * time.Second}
	var got []time.Duration
	for failed := range 100 {
		got = append(got, r.delay(failed+1))
	}
	want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}
	if diff := cmp.Diff(want, got[:4]); diff != "" {
		t.Errorf("the first delays (-want +got):\n%s", diff)
	}
	if got[99] != maxRetryDelay {
		t.Errorf("the last delay is %v, want %v", got[99], maxRetryDelay)
	}
}
