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

func TestOnlySharesWithTheMetadataAreListed(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
	// As if the filter was ignored.
	s.pages([]string{share(shareID, "blue"), share(ruleID, "green")}, []string{share(ruleID, "green")})
	found, err := requests.List(t.Context(), "cluster", "blue")
	check(t, err)
	want := []openstack.Share{{
		ID: shareID, Status: "available", Protocol: "NFS", Metadata: map[string]string{"cluster": "blue"},
	}}
	assert.Check(t, is.DeepEqual(want, found), "shares")
}

// pages answers the next requests with pages of shares.
func (s *fixture) pages(pages ...[]string) {
	s.t.Helper()
	for _, page := range pages {
		s.replyOnce(simulator.Share, `{"shares":[`+strings.Join(page, ",")+`]}`)
	}
}

func TestListContainsAllSharesIfOneIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
	blue := func(ids ...string) (page []string) {
		for _, id := range ids {
			page = append(page, share(id, "blue"))
		}
		return page
	}
	// The cloud returns two shares in a page. After the first page somebody deletes share a.
	s.pages(blue("a", "b"), blue("c", "d"), blue("b", "c"), blue("c", "d"), blue("d"))
	found, err := requests.List(t.Context(), "cluster", "blue")
	check(t, err)
	var ids []string
	for _, f := range found {
		ids = append(ids, f.ID)
	}
	assert.Check(t, is.DeepEqual([]string{"b", "c", "d"}, ids), "shares")
}

func TestListThatMayLackSharesIsAnError(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
	for range 5 {
		s.pages([]string{share("a", "blue"), share("b", "blue")}, []string{share("c", "blue")})
	}
	found, err := requests.List(t.Context(), "cluster", "blue")
	s.failure(len(found), err, openstack.CloudUnreachable)
	assert.ErrorContains(t, err, "a list may lack some")
}

func TestOnlyManilasOwnAnswerMeansThatAShareDoesNotExist(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	requests := s.shares()
	_, exists, err := requests.Find(t.Context(), shareID)
	check(t, err)
	assert.Check(t, !exists, "a share exists that nobody created")
	s.fault(once(foreign(simulator.Share, simulator.Answer{ // of a load balancer
		Status: http.StatusNotFound, Body: `<h1>Not Found</h1>`,
	})))
	_, _, err = requests.Find(t.Context(), shareID)
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
	const rule = `{"access_list":[{"id":%q,"access_type":%q,"access_to":%q,"access_level":"rw",` +
		`"state":%q,"metadata":%s}]}`
	for name, test := range map[string]struct{ list, rules string }{
		"an empty object": {`{}`, `{}`},
		"null":            {`null`, `{"access_list":null}`},
		"not an ID": {
			`{"shares":[` + share("../x", "blue") + `]}`,
			fmt.Sprintf(rule, "../x", "ip", "x", "active", "{}"),
		},
		"lists elsewhere":      {`{"volumes":[]}`, `[]`},
		"pages without an end": {`{"shares":[` + full + `]}`, `{"access_list":{}}`},
		"a word with spaces":   {`{"shares":{}}`, fmt.Sprintf(rule, ruleID, "i p", "x", "active", "{}")},
		"no client":            {`{"shares":[1]}`, fmt.Sprintf(rule, ruleID, "ip", "", "active", "{}")},
		"a long client": {
			`{"shares":[{}]}`, fmt.Sprintf(rule, ruleID, "ip", strings.Repeat("1", 256), "active", "{}"),
		},
		"long metadata": {
			`{"shares":[` + share(shareID, strings.Repeat("b", 1024)) + `]}`,
			fmt.Sprintf(rule, ruleID, "ip", "x", "active", `{"a":"`+strings.Repeat("b", 1024)+`"}`),
		},
		"metadata that are no text": {
			`{"shares":""}`, fmt.Sprintf(rule, ruleID, "ip", "x", "active", `{"a":1}`),
		},
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
		http.StatusBadRequest: openstack.Refused, http.StatusNotAcceptable: openstack.Refused,
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
	s.refuse(simulator.Identity, 401)
	s.cloud.RevokeTokens()
	_, err = requests.List(t.Context(), "cluster", "blue")
	s.failure(0, err, openstack.AuthenticationFailed)
}
