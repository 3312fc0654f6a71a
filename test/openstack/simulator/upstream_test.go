package simulator

import (
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The log, the faults and the issued tokens are those of the simulator; everything else is the
// answer of the upstream.
func TestUpstreamAnswersInPlaceOfTheServices(t *testing.T) {
	t.Parallel()
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Subject-Token", "token of the upstream")
		w.Header().Set(requestID, "req-upstream")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	})
	cloud, ctx := run(t, Config{Upstream: upstream, Credentials: Credentials{UserID: "u"}})
	login := cloud.Info().AuthURL + "/auth/tokens?nocatalog"
	status, header, body := post(ctx, t, login, "content")
	if status != http.StatusTeapot || body != "POST /identity/v3/auth/tokens?nocatalog content" ||
		header.Get(requestID) != "req-upstream" {
		t.Errorf("got %d %q with %v", status, body, header)
	}
	if diff := cmp.Diff([]string{"token of the upstream"}, cloud.IssuedTokens()); diff != "" {
		t.Errorf("issued tokens (-want +got):\n%s", diff)
	}
	set(t, cloud, Fault{Mode: Status, Status: http.StatusServiceUnavailable, Times: 1})
	if status, _, _ := post(ctx, t, login, ""); status != http.StatusServiceUnavailable {
		t.Errorf("a fault ends with %d", status)
	}
	want := []Request{{Status: http.StatusTeapot}, {Status: http.StatusServiceUnavailable}}
	onlyStatus := cmpopts.IgnoreFields(Request{}, "Number", "Time", "Service", "Region", "Method",
		"Path", "Done", "Connection", "Faults")
	if diff := cmp.Diff(want, cloud.Log(), onlyStatus); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
