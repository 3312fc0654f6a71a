package sidecar

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// caller returns a function that calls the sidecar on one connection with tokens, and returns the
// code of the answer.
func (f *fixture) caller() func(tokens ...string) codes.Code {
	f.Helper()
	client := identity.NewIdentityClient(f.connectPinned())
	return func(tokens ...string) codes.Code {
		var pairs []string
		for _, token := range tokens {
			pairs = append(pairs, wire.TokenHeader, wire.TokenPrefix+token)
		}
		_, err := client.GetIdentity(metadata.AppendToOutgoingContext(f.Context(), pairs...),
			&identity.GetIdentityRequest{})
		return status.Code(err)
	}
}

// Tokens for other audiences cause no requests.
func TestOnlyTheControllerMayCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	call := f.caller()
	for _, tokens := range [][]string{
		nil,
		{""},
		{"garbage"},
		{otherPodToken},
		{sharedToken},
		{apiServerToken},
		{"a.1.b"},
		{"a.eyJhdWQiOjF9.b"},
		{"a.W10.b"},
		{controllerToken, unauthorizedToken},
	} {
		assert.Check(t, is.Equal(call(tokens...), codes.Unauthenticated), "with the tokens %q", tokens)
	}
	assert.Check(t, is.Equal(f.requests("create", "tokenreviews"), 0), "checks of other tokens")
	for token, want := range map[string]codes.Code{
		controllerToken: codes.OK, unauthorizedToken: codes.PermissionDenied,
		forgedToken: codes.Unauthenticated, noAnswerToken: codes.Unavailable,
	} {
		assert.Check(t, is.Equal(f.caller()(token), want), "call with the token %q", token)
	}
}

// Other controllers send tokens for the API server.
func TestFlagSelectsAnotherAudience(t *testing.T) {
	t.Parallel()
	for audience, accepted := range map[string]string{
		"": apiServerToken, "csiaddons.openshift.io": sharedToken,
	} {
		f := newFixture(t)
		f.run("--token-audience=" + audience)
		for _, token := range []string{apiServerToken, sharedToken, controllerToken} {
			want := map[bool]codes.Code{true: codes.OK, false: codes.Unauthenticated}[token == accepted]
			assert.Check(t, is.Equal(f.caller()(token), want), "audience %q, token %q", audience, token)
		}
	}
}

func TestChecksOfTokensAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	call, began := f.caller(), time.Now()
	for n := range 2 * reviewBurst {
		assert.Equal(t, call(forgedToken+strconv.Itoa(n)), codes.Unauthenticated)
	}
	took := time.Since(began)
	assert.Check(t, took >= (reviewBurst-1)*time.Second/reviewsPerSecond, "checks took %v", took)
	// A new connection of the controller waits for its check, too.
	assert.Check(t, is.Equal(f.caller()(controllerToken), codes.OK), "while another one is limited")
}

func TestRepeatedTokenCausesNoRequest(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]codes.Code{
		controllerToken: codes.OK, unauthorizedToken: codes.PermissionDenied,
	} {
		f := newFixture(t)
		f.run()
		call, began := f.caller(), time.Now()
		for range 2 * reviewBurst {
			assert.Check(t, is.Equal(call(token), want), "call with the token %q", token)
		}
		took := time.Since(began)
		n := f.requests("create", "tokenreviews")
		assert.Check(t, n <= 1+int(took/refusedFor), "token %q: %d checks in %v", token, n, took)
	}
}

// Other clients may use up all checks of tokens.
func TestNextTokenOfAnAcceptedClientIsNotLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := newAccess(&Settings{
		Pod: Pod{Namespace: "csi"}, Access: Access{Audience: "csiaddons.openshift.io/uid-a"},
	}, f.kube, f.metrics)
	own, other := &client{}, &client{}
	a.reviews = rate.NewLimiter(0, 1)
	for _, test := range []struct {
		when   string
		caller *client
		token  string
		want   codes.Code
	}{
		{"first", own, controllerToken, codes.OK},
		{"beyond the limit", other, unauthorizedToken, codes.ResourceExhausted},
		{"next valid", own, nextToken, codes.OK},
		{"invalid", own, forgedToken, codes.Unauthenticated},
		{"after an invalid one", own, forgedToken + "2", codes.ResourceExhausted},
	} {
		ctx := metadata.NewIncomingContext(t.Context(),
			metadata.Pairs(wire.TokenHeader, wire.TokenPrefix+test.token))
		err := a.accept(peer.NewContext(ctx, &peer.Peer{AuthInfo: test.caller}))
		assert.Check(t, is.Equal(status.Code(err), test.want), "the %s token: %v", test.when, err)
	}
}

func TestLogNamesRefusedCallers(t *testing.T) {
	t.Parallel()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	a := newAccess(&Settings{}, nil, NewMetrics(nil))
	const calls = 10 * refusalBurst
	began := time.Now()
	for n := range calls {
		ctx := peer.NewContext(klog.NewContext(t.Context(), logger),
			&peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP("fd00::1"), Port: n}})
		_, err := a.check(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/B"}, nil)
		assert.Check(t, status.Code(err) == codes.Unauthenticated, "the call returns %v", err)
	}
	most := refusalBurst + 1 + int(refusalsPerSecond*time.Since(began).Seconds())
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	n := strings.Count(log, "Refused a call")
	assert.Check(t, n != 0 && n <= most && strings.Count(log, `caller="[fd00::1]:`) == n,
		"%d lines for %d calls, want at most %d:\n%s", n, calls, most, log)
}

func TestLargeRequestsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	_, err := f.reclaimOnNode(strings.Repeat("a", maxRequest))
	checks := f.requests("create", "tokenreviews")
	assert.Check(t, status.Code(err) == codes.ResourceExhausted && checks == 0, "%v, %d", err, checks)
}

func TestControllerRefusesAnotherCertificate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	pin := f.awaitAnnounced().Annotations[v1alpha1.CertificatePinAnnotation]
	_, err := identity.NewIdentityClient(f.connect("sha256:0")).
		GetIdentity(f.with(controllerToken), &identity.GetIdentityRequest{})
	assert.Check(t, status.Code(err) == codes.Unavailable &&
		strings.Contains(err.Error(), "has the pin "+pin), "with another pin the call returns: %v", err)
	assert.Check(t, is.Equal(f.requests("create", "tokenreviews"), 0), "the sidecar has seen tokens")
}

func TestInsecureModeNeedsTheFlag(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]codes.Code{
		"--enable-auth=false": codes.OK, "--enable-auth=true": codes.Unavailable,
	} {
		f := newFixture(t)
		f.run(flag)
		pin := f.awaitAnnounced().Annotations[v1alpha1.CertificatePinAnnotation]
		_, err := identity.NewIdentityClient(f.connect("")).
			GetIdentity(t.Context(), &identity.GetIdentityRequest{})
		assert.Check(t, status.Code(err) == want && (pin == "") == (want == codes.OK),
			"with %s and without TLS the sidecar returns %v, its pin is %q", flag, err, pin)
	}
}

// Clients that send nothing, far more than the limit, neither end the connection of the controller
// nor delay its first attempt to connect again.
func TestSilentClientsDoNotKeepTheControllerAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	var connections atomic.Int32
	own := f.connectPinned(grpc.WithContextDialer(
		func(ctx context.Context, target string) (net.Conn, error) {
			connections.Add(1)
			var dialer net.Dialer
			return dialer.DialContext(ctx, "tcp", target)
		}))
	call := func(connection grpc.ClientConnInterface) {
		t.Helper()
		_, err := identity.NewIdentityClient(connection).GetIdentity(f.with(controllerToken),
			&identity.GetIdentityRequest{})
		assert.Check(t, err)
	}
	call(own)
	address := own.Target()[len("passthrough:///"):]
	for range 4 * maxConnections {
		var dialer net.Dialer
		silent, err := dialer.DialContext(t.Context(), "tcp", address)
		assert.NilError(t, err)
		t.Cleanup(func() { _ = silent.Close() })
	}
	began := time.Now()
	call(own)
	call(f.connectPinned())
	assert.Check(t, time.Since(began) < connectTimeout/2, "it waited until silent ones end")
	assert.Check(t, is.Equal(connections.Load(), int32(1)), "the controller had to connect again")
}

func TestOldestConnectionWithoutATokenIsTheFirstToGo(t *testing.T) {
	t.Parallel()
	open := &limited{metric: NewMetrics(nil).connections}
	var controllers []*client
	for range maxConnections - 2 {
		one := &client{}
		one.accepted.Store(true)
		controllers = append(controllers, one)
		assert.Check(t, open.add(one) == nil)
	}
	raw, other := net.Pipe()
	defer other.Close()
	older, newer, added := &client{Conn: raw, listener: open}, &client{}, &client{}
	assert.Check(t, open.add(older) == nil && open.add(newer) == nil, "up to the limit")
	assert.Check(t, open.add(added) == older, "beyond the limit")
	assert.NilError(t, older.Close())
	assert.Check(t, open.add(&client{}) == newer, "after the end of the oldest")
	open.open = append(controllers, controllers[:2]...)
	assert.Check(t, open.add(added) == added, "beside accepted ones only")
	open.everybody, open.open = true, make([]*client, maxConnections)
	assert.Check(t, open.add(added) == added, "without tokens")
}
