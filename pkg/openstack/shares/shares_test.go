package shares_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	shareID = "5d0f8a52-0b5c-4a6e-9d7b-3f1c2e4a6b80"
	ruleID  = "9c1de6b4-5f9a-4c53-8f0e-d2b7a1c4e6f3"
)

// fixture is a simulated cloud and requests about its shares.
type fixture struct {
	*shares.Requests
	cloud *simulator.Simulator
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	cloud, err := simulator.New(simulator.Config{})
	assert.NilError(t, err)
	assert.NilError(t, cloud.Start(t.Context()))
	t.Cleanup(func() { assert.Check(t, cloud.Close()) })
	return fixture{connected(t, cloud.CloudsYAML(simulator.Clouds{})), cloud}
}

func connected(t *testing.T, file []byte) *shares.Requests {
	t.Helper()
	login, err := clouds.Content{Data: map[string][]byte{clouds.Key: file}}.Login()
	assert.NilError(t, err)
	requests, err := shares.New(t.Context(), openstack.NewClient(
		openstack.Fixed(openstack.Access{Login: login}), openstack.NewBackoff(clock.RealClock{})))
	assert.NilError(t, err)
	return requests
}

func (f fixture) fault(t *testing.T, fault simulator.Fault) {
	t.Helper()
	_, err := f.cloud.SetFault(fault)
	assert.NilError(t, err)
}

// refuse makes a service answer with a status.
func (f fixture) refuse(t *testing.T, service simulator.Service, status int) {
	t.Helper()
	f.fault(t, simulator.Fault{Mode: simulator.Status, Service: service, Status: status})
}

// reply makes Manila answer the next requests with bodies, one each.
func (f fixture) reply(t *testing.T, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		f.fault(t, answer(1, http.StatusOK, body))
	}
}

// answer is the fault of a Manila that answers so, always if times is 0.
func answer(times, status int, body string) simulator.Fault {
	return simulator.Fault{
		Mode: simulator.Foreign, Service: simulator.Share, Times: times,
		Answer: &simulator.Answer{Status: status, Body: body},
	}
}

// wantFailure expects an error alone, and returns its message.
func wantFailure(t *testing.T, results int, err error, want openstack.Reason) string {
	t.Helper()
	classified, _ := errors.AsType[*openstack.Error](err)
	assert.Assert(t, classified != nil && results == 0 && classified.Reason == want,
		"got %d results and error %v, want %s", results, err, want)
	return classified.Message
}

func share(id, cluster string) string {
	return fmt.Sprintf(`{"id":%q,"status":"available","share_proto":"NFS","metadata":{"cluster":%q}}`,
		id, cluster)
}

// Each letter is the ID of a share, in upper case as if the cloud ignored the filter of metadata.
// Each word is a page.
func TestListContainsAllSharesWithTheMetadata(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for pages, want := range map[string]string{
		"aB B":                     "a",
		"ab cd bc cd d":            "bcd", // somebody deletes share a after the first page
		strings.Repeat("ab c ", 5): "",    // the list may lack some
	} {
		for page := range strings.FieldsSeq(pages) {
			var items []string
			for id := range strings.SplitSeq(page, "") {
				cluster := map[bool]string{true: "blue", false: "green"}[id == strings.ToLower(id)]
				items = append(items, share(id, cluster))
			}
			f.reply(t, `{"shares":[`+strings.Join(items, ",")+`]}`)
		}
		found, err := f.List(t.Context(), "cluster", "blue")
		if want == "" {
			message := wantFailure(t, len(found), err, openstack.CloudUnreachable)
			assert.Check(t, strings.Contains(message, "may lack some"), message)
			continue
		}
		assert.NilError(t, err)
		assert.Assert(t, is.Len(found, len(want)), "shares of %s", pages)
		for i, share := range found {
			assert.Check(t, is.DeepEqual(shares.Share{
				ID: want[i : i+1], Status: "available", Protocol: "NFS",
				Metadata: map[string]string{"cluster": "blue"},
			}, share), "share %d of %s", i, pages)
		}
	}
}

// Clients of a share in the recycle bin may still use it. Manila before Xena has none.
func TestListContainsTheRecycleBin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, want := range []string{"ab", "a"} {
		pages := "a a"
		if len(want) > 1 {
			pages += " ab b" // share a was moved meanwhile
		}
		for page := range strings.FieldsSeq(pages) {
			items := share(page[:1], "blue")
			if len(page) > 1 {
				items += "," + share(page[1:], "blue")
			}
			f.reply(t, `{"shares":[`+items+`]}`)
		}
		if len(want) == 1 {
			f.refuse(t, simulator.Share, http.StatusNotAcceptable)
		}
		found, err := f.List(t.Context(), "cluster", "blue")
		assert.NilError(t, err)
		got := ""
		for _, share := range found {
			got += share.ID
		}
		assert.Check(t, is.Equal(got, want))
	}
}

func TestOnlyManilasOwnAnswerMeansThatAShareDoesNotExist(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, id := range []string{shareID, "../x", "detail"} { // the path of the list ends with detail
		_, exists, err := f.Find(t.Context(), id)
		assert.NilError(t, err)
		assert.Check(t, !exists, "share %s exists, which nobody created", id)
	}
	f.fault(t, answer(1, http.StatusNotFound, `<h1>Not Found</h1>`)) // of a load balancer
	_, _, err := f.Find(t.Context(), shareID)
	wantFailure(t, 0, err, openstack.NotOffered)
	long := strings.Repeat("é", shares.MaxMetadataValue+1)
	for _, body := range []string{
		`{"share":` + share(ruleID, "blue") + `}`, `{"share":{"id":"` + shareID + `"}}`, `{}`, `null`,
		`{"share":null}`, `{"share":[]}`, `{"share":` + share(shareID, long) + `}`,
	} {
		f.reply(t, body)
		_, _, err = f.Find(t.Context(), shareID)
		wantFailure(t, 0, err, openstack.CloudUnreachable)
	}
}

func TestHostileAnswersAboutSharesCauseErrors(t *testing.T) {
	t.Parallel()
	full := strings.Repeat(share(shareID, "green")+",", 2000) + share(shareID, "green")
	rule := func(id, kind, to, metadata string) string {
		return fmt.Sprintf(`{"access_list":[{"id":%q,"access_type":%q,"access_to":%q,`+
			`"access_level":"rw","state":"active","metadata":%s}]}`, id, kind, to, metadata)
	}
	long := strings.Repeat("b", 1024)
	for name, test := range map[string]struct{ list, rules string }{
		"an empty object":      {`{}`, `{}`},
		"null":                 {`null`, `{"access_list":null}`},
		"not an ID":            {`{"shares":[` + share("..", "blue") + `]}`, rule("..", "ip", "x", "{}")},
		"lists elsewhere":      {`{"volumes":[]}`, `[]`},
		"pages without an end": {`{"shares":[` + full + `]}`, `{"access_list":{}}`},
		"a word with spaces":   {`{"shares":{}}`, rule(ruleID, "i p", "x", "{}")},
		"no client":            {`{"shares":[1]}`, rule(ruleID, "ip", "", "{}")},
		"a long client":        {`{"shares":[{}]}`, rule(ruleID, "ip", long[:256], "{}")},
		"long metadata": {
			`{"shares":[` + share(shareID, long) + `]}`, rule(ruleID, "ip", "x", `{"a":"`+long+`"}`),
		},
		"metadata that are no text": {`{"shares":""}`, rule(ruleID, "ip", "x", `{"a":1}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.fault(t, answer(0, http.StatusOK, test.list))
			found, err := f.List(t.Context(), "cluster", "blue")
			wantFailure(t, len(found), err, openstack.CloudUnreachable)
			assert.NilError(t, f.cloud.ClearFaults())
			f.reply(t, test.rules)
			rules, err := f.Rules(t.Context(), shareID)
			wantFailure(t, len(rules), err, openstack.CloudUnreachable)
		})
	}
}

// A cloud may return one share in each page, with as much metadata as a page can contain.
func TestMetadataOfAllSharesIsLimited(t *testing.T) {
	t.Parallel()
	var entries strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&entries, `"%d":"%s",`, i, strings.Repeat("m", 1000))
	}
	pages := 0
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/auth/tokens") {
			w.Header().Set("X-Subject-Token", "token")
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"token":{"project":{"id":"p"},"catalog":[{"type":"sharev2",`+
				`"endpoints":[{"interface":"public","url":"%s/v2"}]}]}}`, server.URL)
			return
		}
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset")) // the first page has none
		pages++
		var page []string
		for i := range 2 {
			page = append(page, fmt.Sprintf(`{"id":"%d","metadata":{%s"cluster":"blue"}}`, offset+i,
				entries.String()))
		}
		_, _ = fmt.Fprintf(w, `{"shares":[%s]}`, strings.Join(page, ","))
	}))
	t.Cleanup(server.Close)
	requests := connected(t, []byte("{clouds: {openstack: {auth: {auth_url: '"+server.URL+
		"/v3', user_id: u, password: p, project_id: p}}}}"))
	_, err := requests.List(t.Context(), "cluster", "blue")
	assert.ErrorContains(t, err, "more than 32 MiB of their metadata")
	assert.Check(t, pages <= 40, "%d pages of 1 MB were read", pages)
}

func TestStatusOfARequestAboutAShareIsClassified(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rule := shares.AccessRule{Type: "ip", To: "10.0.0.5", Level: "rw"}
	for status, want := range map[int]openstack.Reason{
		http.StatusBadRequest: openstack.Refused, http.StatusNotAcceptable: openstack.NotOffered,
		// The answer is not that of Manila for a share that does not exist.
		http.StatusNotFound: openstack.NotOffered, http.StatusConflict: openstack.Conflict,
		http.StatusForbidden: openstack.NotOffered, http.StatusBadGateway: openstack.CloudUnreachable,
	} {
		f.refuse(t, simulator.Share, status)
		wantFailure(t, 0, f.Grant(t.Context(), shareID, rule), want)
		assert.NilError(t, f.cloud.ClearFaults())
	}
	wantFailure(t, 0, f.Grant(t.Context(), shareID, rule), openstack.NotFound)
	// What does not exist needs no removal.
	assert.NilError(t, f.Revoke(t.Context(), shareID, ruleID))
	assert.NilError(t, f.DeleteMetadata(t.Context(), shareID, "key"))
	// A list of shares always exists, if the service does.
	f.refuse(t, simulator.Share, http.StatusNotFound)
	_, err := f.List(t.Context(), "cluster", "blue")
	wantFailure(t, 0, err, openstack.NotOffered)
}

func TestRequestAboutASharesRunsWhileAnotherWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hanging, err := f.cloud.SetFault(simulator.Fault{
		Mode: simulator.Hang, Service: simulator.Share, PathPrefix: "/share/v2/share-access-rules",
	})
	assert.NilError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := f.Rules(t.Context(), shareID)
		ended <- err
	}()
	_, err = f.List(t.Context(), "cluster", "blue")
	assert.NilError(t, err)
	assert.NilError(t, f.cloud.ClearFaults(hanging.ID))
	wantFailure(t, 0, <-ended, openstack.Refused) // Manila answers 400 for a share that does not exist
}

func TestRequestsAboutSharesSurviveARevokedToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cloud.RevokeTokens()
	_, err := f.List(t.Context(), "cluster", "blue")
	assert.NilError(t, err)
	f.refuse(t, simulator.Identity, 503)
	f.cloud.RevokeTokens()
	_, err = f.List(t.Context(), "cluster", "blue")
	message := wantFailure(t, 0, err, openstack.CloudUnreachable)
	assert.Check(t, strings.Contains(message, "identity service"), message)
	assert.NilError(t, f.cloud.ClearFaults())
	f.refuse(t, simulator.Identity, 401)
	_, err = f.List(t.Context(), "cluster", "blue")
	wantFailure(t, 0, err, openstack.AuthenticationFailed)
}
