package openstack_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/services"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	loginCall   = "POST /identity/v3/auth/tokens"
	catalogCall = "GET /identity/v3/auth/catalog"
)

// unchanged expects the next request to need no login.
func (s *fixture) unchanged(client *openstack.Client) {
	s.t.Helper()
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{typesCall: 1})
}

// wantLogin expects the next request to need a login, and the one after it none.
func (s *fixture) wantLogin(client *openstack.Client) {
	s.t.Helper()
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{loginCall: 1, typesCall: 1})
	s.unchanged(client)
}

func TestEachKindOfLoginLastsUntilItIsRotated(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]simulator.Clouds{
		"password":                       {},
		"application credential by id":   {Auth: simulator.ApplicationCredential},
		"application credential by name": {Auth: simulator.NamedApplicationCredential},
		"other name of the only entry":   {Cloud: "production"},
		"without region":                 {NoRegion: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{})
			s.clouds(options)
			client := s.client()
			s.wantLogin(client)
			s.cloud.RotateCredentials(simulator.Rotation{})
			s.counters()
			stable(t, repetitions, func() string {
				return s.wantFailure(client, openstack.AuthenticationFailed)
			})
			s.wantCalls(map[string]int{typesCall: 1, loginCall: 1})
			s.clouds(options)
			s.wantLogin(client)
		})
	}
}

func TestChangedFilesCauseNewLogin(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{TLS: true})
	client := s.client()
	s.wantFailure(client, openstack.CloudUnreachable)
	s.write("ca.crt", s.ca())
	s.counters()
	for _, change := range []func(){
		func() {},
		func() { s.clouds(simulator.Clouds{Auth: simulator.ApplicationCredential}) },
		func() { s.write("ca.crt", s.ca()+"\n# another bundle\n") },
		func() { s.clouds(simulator.Clouds{Cloud: "other"}) },
	} {
		change()
		s.wantLogin(client)
	}
	s.write("clouds.yaml", "clouds: [")
	s.wantFailure(client, openstack.InvalidCredentials)
	s.wantCalls(map[string]int{})
	s.clouds(simulator.Clouds{Cloud: "other"})
	s.unchanged(client) // the session outlives the invalid file
}

// As in the drivers, a CA of the credentials is the only one that is trusted.
func TestTrustedCABundleIsTrusted(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{TLS: true})
	var trusted []byte
	client := s.clientOf(func() (openstack.Access, error) { return s.access(trusted) })
	wantFragment(t, s.wantFailure(client, openstack.CloudUnreachable), "trustedCA of Proxy/cluster")
	trusted = []byte("# from the network operator\n" + s.ca())
	s.counters()
	s.wantLogin(client)
	stranger := newSimulated(t, simulator.Config{TLS: true})
	s.write("ca.crt", stranger.ca())
	s.wantFailure(client, openstack.CloudUnreachable)
	s.write("ca.crt", s.ca())
	trusted = []byte("no PEM")
	s.wantTypes(client, "gold", "silver")
}

func TestUnacceptedTokenCausesNewLogin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ttl time.Duration
		end func(*fixture)
	}{
		"revoked": {time.Hour, func(s *fixture) { s.cloud.RevokeTokens() }},
		"expired": {services.BriefTTL, func(s *fixture) {
			check(s.t, s.cloud.ExpireTokens(s.t.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{TokenTTL: test.ttl})
			client := s.connected()
			for range 2 {
				test.end(s)
				s.wantTypes(client, "gold", "silver")
				s.wantCalls(map[string]int{loginCall: 1, typesCall: 2})
				s.unchanged(client)
			}
		})
	}
}

// A service refuses each token, because no access rule permits the request.
func TestRefusedTokenCausesOneLoginForManyPolls(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.connected()
	s.refuse(simulator.Share, http.StatusUnauthorized)
	s.repeat(client, failure{
		reason: openstack.AuthenticationFailed, fragment: "refused the token (HTTP 401)",
	})
	s.wantCalls(map[string]int{loginCall: 1, typesCall: repetitions + 1})
	_, err := client.VolumeZones(t.Context())
	check(t, err)
	s.counters()
	check(t, s.cloud.ClearFaults())
	s.unchanged(client)
}

// connectedWithoutManila returns a cloud without Manila, a client with a session, and the message
// of its first request.
func connectedWithoutManila(
	t *testing.T, start func(*testing.T, simulator.Config) *fixture,
) (*fixture, *openstack.Client, string) {
	t.Helper()
	s := start(t, simulator.Config{TokenTTL: time.Hour})
	s.cloud.RemoveFromCatalog("sharev2")
	client := s.client()
	message := s.wantFailure(client, openstack.NotOffered)
	s.wantCalls(map[string]int{loginCall: 1})
	return s, client, message
}

// Each call reads the catalog with one request until it contains Manila.
func TestMissingManilaIsDetectedWithoutLogin(t *testing.T) {
	t.Parallel()
	s, client, first := connectedWithoutManila(t, newFixture)
	for range repetitions {
		assert.Assert(t, is.Equal(s.wantFailure(client, openstack.NotOffered), first))
		s.wantCalls(map[string]int{catalogCall: 1})
	}
	s.cloud.RevokeTokens()
	s.wantFailure(client, openstack.NotOffered)
	s.wantCalls(map[string]int{loginCall: 1, catalogCall: 2})
	s.cloud.RestoreToCatalog("sharev2")
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{catalogCall: 1, typesCall: 1})
	s.unchanged(client)
}

func TestCatalogOfNewLoginIsUsedByTheNextCall(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.connected()
	s.cloud.RemoveFromCatalog("sharev2")
	s.unchanged(client) // Manila still responds
	s.cloud.RevokeTokens()
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{loginCall: 1, typesCall: 2})
	s.wantFailure(client, openstack.NotOffered)
	s.wantCalls(map[string]int{catalogCall: 1})
	s.cloud.RestoreToCatalog("sharev2")
	s.wantTypes(client, "gold", "silver")
}

// Without a catalog it is not known whether the cloud offers Manila.
func TestOnlyACatalogMeansNotOffered(t *testing.T) {
	t.Parallel()
	s, client, _ := connectedWithoutManila(t, newSimulated)
	for _, answer := range []simulator.Answer{
		{Status: 403},
		{Status: 404},
		{Status: 503},
		{Body: `{}`},
		{Body: `null`},
		{Body: `[]`},
		{Body: `{"catalog":null}`},
		{Body: `{"catalog":{}}`},
	} {
		fault := foreign(simulator.Identity, answer)
		fault.Method = http.MethodGet
		s.fault(fault)
		wantFragment(t, s.wantFailure(client, openstack.CloudUnreachable), "identity service")
		check(t, s.cloud.ClearFaults())
		s.replyOnce(simulator.Identity, `{"catalog":[]}`)
		s.wantFailure(client, openstack.NotOffered)
	}
}

func TestConcurrentCallsShareOneLogin(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.client()
	const callers = 20 // more than the requests about shares that run at the same time
	concurrently := func(call func()) {
		var group sync.WaitGroup
		for range callers {
			group.Go(call)
		}
		group.Wait()
	}
	concurrently(func() {
		types, err := client.ShareTypes(t.Context())
		assert.Check(t, err)
		assert.Check(t, is.DeepEqual([]string{"gold", "silver"}, namesOf(types)))
	})
	s.wantCalls(map[string]int{loginCall: 1, typesCall: callers})
	requests, err := shares.New(t.Context(), client)
	check(t, err)
	s.cloud.RotateCredentials(simulator.Rotation{})
	s.counters()
	concurrently(func() {
		_, _, err := requests.Find(t.Context(), shareID)
		assert.Check(t, is.Equal(openstack.ReasonOf(err), openstack.AuthenticationFailed))
	})
	assert.Check(t, is.Equal(s.counters().Calls[loginCall], 1), "refused logins")
}

func TestCancelledContextEndsRunningAndWaitingCalls(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.connected()
	s.fault(mode(simulator.Hang))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 2)
	ask := func() {
		_, err := client.ShareTypes(ctx)
		failed <- err
	}
	go ask()
	s.waitUntilOneHangs()
	go ask()
	cancel()
	for range 2 {
		wantFragment(t, s.failure(0, <-failed, openstack.CloudUnreachable), "request cancelled")
	}
	check(t, s.cloud.ClearFaults())
	s.wantTypes(client, "gold", "silver")
}

func TestCredentialExpiryIsRead(t *testing.T) {
	t.Parallel()
	expiry := time.Date(2027, 2, 3, 4, 5, 6, 0, time.UTC)
	for name, test := range map[string]struct {
		auth         simulator.Auth
		expiry, want time.Time
		status       int
	}{
		"by ID":               {simulator.ApplicationCredential, expiry, expiry, 0},
		"by name":             {simulator.NamedApplicationCredential, expiry, expiry, 0},
		"never":               {simulator.ApplicationCredential, time.Time{}, time.Time{}, 0},
		"a password":          {simulator.Password, expiry, time.Time{}, 0},
		"a policy forbids it": {simulator.ApplicationCredential, expiry, time.Time{}, 403},
		"an outage":           {simulator.ApplicationCredential, expiry, time.Time{}, 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{
				Credentials: simulator.Credentials{ApplicationCredentialExpiry: test.expiry},
			})
			s.clouds(simulator.Clouds{Auth: test.auth})
			client := s.client()
			check(t, client.Check(t.Context()))
			if test.status != 0 {
				s.refuse(simulator.Identity, test.status)
			}
			got, err := client.CredentialExpiry(t.Context())
			if name == "an outage" {
				s.failure(0, err, openstack.CloudUnreachable)
				return
			}
			assert.Check(t, err == nil && got.Equal(test.want),
				"the expiry is %v, %v; want %v", got, err, test.want)
		})
	}
}
