package openstack_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	shareID = "5d0f8a52-0b5c-4a6e-9d7b-3f1c2e4a6b80"
	ruleID  = "9c1de6b4-5f9a-4c53-8f0e-d2b7a1c4e6f3"
)

// shares returns requests about shares of the fixture's cloud.
func (s *fixture) shares() *openstack.Shares {
	s.t.Helper()
	requests, err := s.client().Shares(s.t.Context())
	check(s.t, err)
	return requests
}

func share(id, cluster string) string {
	return fmt.Sprintf(`{"id":%q,"status":"available","share_proto":"NFS","metadata":{"cluster":%q}}`,
		id, cluster)
}

// Each letter is the ID of a share, in upper case as if the cloud ignored the filter of metadata.
// Each word is a page.
func TestListContainsAllSharesWithTheMetadata(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
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
			s.replyOnce(simulator.Share, `{"shares":[`+strings.Join(items, ",")+`]}`)
		}
		found, err := requests.List(t.Context(), "cluster", "blue")
		if want == "" {
			wantFragment(t, s.failure(len(found), err, openstack.CloudUnreachable), "may lack some")
			continue
		}
		check(t, err)
		assert.Assert(t, is.Len(found, len(want)), "shares of %s", pages)
		for i, share := range found {
			assert.Check(t, is.DeepEqual(openstack.Share{
				ID: want[i : i+1], Status: "available", Protocol: "NFS",
				Metadata: map[string]string{"cluster": "blue"},
			}, share), "share %d of %s", i, pages)
		}
	}
}

// Clients of a share in the recycle bin may still use it. Manila before Xena has none.
func TestListContainsTheRecycleBin(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
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
			s.replyOnce(simulator.Share, `{"shares":[`+items+`]}`)
		}
		if len(want) == 1 {
			s.refuse(simulator.Share, http.StatusNotAcceptable)
		}
		found, err := requests.List(t.Context(), "cluster", "blue")
		check(t, err)
		got := ""
		for _, share := range found {
			got += share.ID
		}
		assert.Check(t, is.Equal(got, want))
	}
}

func TestOnlyManilasOwnAnswerMeansThatAShareDoesNotExist(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
	for _, id := range []string{shareID, "../x", "detail"} { // the path of the list ends with detail
		_, exists, err := requests.Find(t.Context(), id)
		check(t, err)
		assert.Check(t, !exists, "share %s exists, which nobody created", id)
	}
	s.fault(once(foreign(simulator.Share, simulator.Answer{ // of a load balancer
		Status: http.StatusNotFound, Body: `<h1>Not Found</h1>`,
	})))
	_, _, err := requests.Find(t.Context(), shareID)
	s.failure(0, err, openstack.NotOffered)
	long := strings.Repeat("é", openstack.MaxMetadataValue+1)
	for _, body := range []string{
		`{"share":` + share(ruleID, "blue") + `}`, `{"share":{"id":"` + shareID + `"}}`, `{}`, `null`,
		`{"share":null}`, `{"share":[]}`, `{"share":` + share(shareID, long) + `}`,
	} {
		s.replyOnce(simulator.Share, body)
		_, _, err = requests.Find(t.Context(), shareID)
		s.failure(0, err, openstack.CloudUnreachable)
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
			s := newSimulated(t, simulator.Config{})
			requests := s.shares()
			s.fault(foreign(simulator.Share, simulator.Answer{Body: test.list}))
			found, err := requests.List(t.Context(), "cluster", "blue")
			s.failure(len(found), err, openstack.CloudUnreachable)
			check(t, s.cloud.ClearFaults())
			s.replyOnce(simulator.Share, test.rules)
			rules, err := requests.Rules(t.Context(), shareID)
			s.failure(len(rules), err, openstack.CloudUnreachable)
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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset")) // the first page has none
		pages++
		var page []string
		for i := range 2 {
			page = append(page, fmt.Sprintf(`{"id":"%d","metadata":{%s"cluster":"blue"}}`, offset+i,
				entries.String()))
		}
		writeJSON(w, http.StatusOK, `{"shares":[`+strings.Join(page, ",")+`]}`)
	}))
	t.Cleanup(server.Close)
	s := catalogFixture(t, func(string) string { return entry(server.URL + "/v2") })
	requests, err := s.client().Shares(t.Context())
	check(t, err)
	_, err = requests.List(t.Context(), "cluster", "blue")
	wantFragment(t, fmt.Sprint(err), "more than 32 MiB of their metadata")
	assert.Check(t, pages <= 40, "%d pages of 1 MB were read", pages)
}

func TestStatusOfARequestAboutAShareIsClassified(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
	rule := openstack.AccessRule{Type: "ip", To: "10.0.0.5", Level: "rw"}
	for status, want := range map[int]openstack.Reason{
		http.StatusBadRequest: openstack.Refused, http.StatusNotAcceptable: openstack.NotOffered,
		// The answer is not that of Manila for a share that does not exist.
		http.StatusNotFound: openstack.NotOffered, http.StatusConflict: openstack.Conflict,
		http.StatusForbidden: openstack.NotOffered, http.StatusBadGateway: openstack.CloudUnreachable,
	} {
		s.refuse(simulator.Share, status)
		s.failure(0, requests.Grant(t.Context(), shareID, rule), want)
		check(t, s.cloud.ClearFaults())
	}
	s.failure(0, requests.Grant(t.Context(), shareID, rule), openstack.NotFound)
	// What does not exist needs no removal.
	check(t, requests.Revoke(t.Context(), shareID, ruleID))
	check(t, requests.DeleteMetadata(t.Context(), shareID, "key"))
	// A list of shares always exists, if the service does.
	s.refuse(simulator.Share, http.StatusNotFound)
	_, err := requests.List(t.Context(), "cluster", "blue")
	s.failure(0, err, openstack.NotOffered)
}

func TestRequestAboutASharesRunsWhileAnotherWaits(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
	hanging, err := s.cloud.SetFault(simulator.Fault{
		Mode: simulator.Hang, Service: simulator.Share, PathPrefix: "/share/v2/share-access-rules",
	})
	check(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := requests.Rules(t.Context(), shareID)
		ended <- err
	}()
	_, err = requests.List(t.Context(), "cluster", "blue")
	check(t, err)
	check(t, s.cloud.ClearFaults(hanging.ID))
	s.failure(0, <-ended, openstack.Refused) // Manila answers 400 for a share that does not exist
}

func TestRequestsAboutSharesSurviveARevokedToken(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
	s.cloud.RevokeTokens()
	_, err := requests.List(t.Context(), "cluster", "blue")
	check(t, err)
	s.refuse(simulator.Identity, 503)
	s.cloud.RevokeTokens()
	_, err = requests.List(t.Context(), "cluster", "blue")
	wantFragment(t, s.failure(0, err, openstack.CloudUnreachable), "identity service")
	check(t, s.cloud.ClearFaults())
	s.refuse(simulator.Identity, 401)
	_, err = requests.List(t.Context(), "cluster", "blue")
	s.failure(0, err, openstack.AuthenticationFailed)
}
