package sidecar

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"golang.org/x/net/http2"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// call calls the sidecar with a token, and returns the code of the answer.
func (f *fixture) call(token string) codes.Code {
	f.Helper()
	connection := f.connectPinned()
	defer connection.Close()
	_, err := identity.NewIdentityClient(connection).
		GetIdentity(f.with(token), &identity.GetIdentityRequest{})
	return status.Code(err)
}

func TestOnlyTheControllerMayCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	for token, want := range map[string]codes.Code{
		controllerToken:                 codes.OK,
		unauthorizedToken:               codes.PermissionDenied,
		otherPodToken:                   codes.Unauthenticated,
		sharedToken:                     codes.Unauthenticated,
		apiServerToken:                  codes.Unauthenticated,
		forgedToken:                     codes.Unauthenticated,
		"of-nobody":                     codes.Unauthenticated,
		"":                              codes.Unauthenticated,
		strings.Repeat("a", maxToken+1): codes.Unauthenticated,
	} {
		if got := f.call(token); got != want {
			t.Errorf("a call with the token %.20q returns %v, want %v", token, got, want)
		}
	}
	client := identity.NewIdentityClient(f.connectPinned())
	_, err := client.GetIdentity(t.Context(), &identity.GetIdentityRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call without a token returns %v", err)
	}
	twice := metadata.AppendToOutgoingContext(f.with(controllerToken), wire.TokenHeader,
		wire.TokenPrefix+unauthorizedToken)
	_, err = client.GetIdentity(twice, &identity.GetIdentityRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call with two tokens returns %v", err)
	}
}

func TestListOfServiceAccountsReplacesTheAccessReview(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("--allowed-service-accounts=csi/other")
	for token, want := range map[string]codes.Code{
		unauthorizedToken: codes.OK, controllerToken: codes.PermissionDenied,
	} {
		if got := f.call(token); got != want {
			t.Errorf("a call with the token %q returns %v, want %v", token, got, want)
		}
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
			want := codes.Unauthenticated
			if token == accepted {
				want = codes.OK
			}
			if got := f.call(token); got != want {
				t.Errorf("for the audience %q a call with the token %q returns %v, want %v",
					audience, token, got, want)
			}
		}
	}
}

func TestUnavailableAPIServerIsNoReasonToAcceptAToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.kube.PrependReactor("create", "tokenreviews",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no answer")
		})
	f.run()
	if got := f.call(controllerToken); got != codes.Unavailable {
		t.Errorf("the call returns %v, want %v", got, codes.Unavailable)
	}
}

func TestChecksOfTokensAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	client := identity.NewIdentityClient(f.connectPinned())
	began := time.Now()
	for n := range 2 * reviewBurst {
		forged := tokenFor("csiaddons.openshift.io/uid-a", strconv.Itoa(n))
		_, err := client.GetIdentity(f.with(forged), &identity.GetIdentityRequest{})
		if status.Code(err) != codes.Unauthenticated {
			t.Fatalf("the forged token %d leads to %v", n, err)
		}
	}
	if took := time.Since(began); took < (reviewBurst-1)*time.Second/reviewsPerSecond {
		t.Errorf("%d tokens were checked in %v", f.reviews(), took)
	}
	// A new connection of the controller waits for its check, too.
	if got := f.call(controllerToken); got != codes.OK {
		t.Errorf("the call of the controller returns %v while another client is limited", got)
	}
}

func TestAcceptedTokenIsNotLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	client := identity.NewIdentityClient(f.connectPinned())
	for range 2 * reviewBurst {
		_, err := client.GetIdentity(f.with(controllerToken), &identity.GetIdentityRequest{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := f.reviews(); n != 1 {
		t.Errorf("the token was checked %d times", n)
	}
}

// Other clients may use up all checks of tokens.
func TestNextTokenOfAnAcceptedClientIsNotLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := newAccess(&Settings{Pod: Pod{Namespace: "csi"}, Access: Access{
		Audience:        "csiaddons.openshift.io/uid-a",
		ServiceAccounts: []string{"csi/other", "csi-addons-system/csi-addons-controller-manager"},
	}}, f.kube, f.metrics)
	own, other := &client{}, &client{}
	accept := func(caller *client, token string) codes.Code {
		ctx := metadata.NewIncomingContext(t.Context(),
			metadata.Pairs(wire.TokenHeader, wire.TokenPrefix+token))
		return status.Code(a.accept(peer.NewContext(ctx, &peer.Peer{AuthInfo: caller})))
	}
	if got := accept(own, controllerToken); got != codes.OK {
		t.Fatalf("the token of the controller leads to %v", got)
	}
	a.reviews = rate.NewLimiter(0, 0)
	if got := accept(other, unauthorizedToken); got != codes.ResourceExhausted {
		t.Errorf("a token beyond the limit leads to %v", got)
	}
	if got := accept(own, unauthorizedToken); got != codes.OK {
		t.Errorf("the next valid token of a client leads to %v", got)
	}
	if got := accept(own, forgedToken); got != codes.Unauthenticated {
		t.Errorf("an invalid token of an accepted client leads to %v", got)
	}
	if got := accept(own, forgedToken+"2"); got != codes.ResourceExhausted {
		t.Errorf("after an invalid token, the next one leads to %v", got)
	}
}

func TestTokensForOtherAudiencesCauseNoRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	client := identity.NewIdentityClient(f.connectPinned())
	for n := range 2 * reviewBurst {
		for _, token := range []string{
			"garbage" + strconv.Itoa(n), tokenFor("csiaddons.openshift.io/uid-b", strconv.Itoa(n)),
			"a." + strconv.Itoa(n) + ".b", "a.eyJhdWQiOjF9.b", "a.W10.b",
		} {
			_, err := client.GetIdentity(f.with(token), &identity.GetIdentityRequest{})
			if status.Code(err) != codes.Unauthenticated {
				t.Fatalf("the token %s leads to %v", token, err)
			}
		}
	}
	if n := f.reviews(); n != 0 {
		t.Errorf("%d tokens for other audiences were checked", n)
	}
}

func TestRepetitionOfARefusedTokenCausesNoRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	began := time.Now()
	for range 3 {
		if got := f.call(unauthorizedToken); got != codes.PermissionDenied {
			t.Errorf("the call of a user without permission returns %v", got)
		}
	}
	took := time.Since(began)
	if n := f.reviews(); n > 1+int(took/refusedFor) {
		t.Errorf("the same refused token was checked %d times in %v", n, took)
	}
}

func TestLogNamesRefusedCallers(t *testing.T) {
	t.Parallel()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	a := newAccess(&Settings{}, kubefake.NewClientset(), NewMetrics())
	refuse := func(address string) {
		ctx := peer.NewContext(klog.NewContext(t.Context(), logger),
			&peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 1}})
		_, err := a.screen(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/B"}, nil)
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("the call returns %v", err)
		}
	}
	const calls = 10 * refusalBurst
	began := time.Now()
	refuse("10.0.0.1")
	for range calls {
		refuse("fd00::1")
	}
	took := time.Since(began)
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for _, want := range []string{`caller="10.0.0.1"`, `caller="fd00::1"`} {
		if !strings.Contains(log, want) {
			t.Errorf("no line contains %s:\n%s", want, log)
		}
	}
	most := refusalBurst + 1 + int(refusalsPerSecond*took.Seconds())
	if n := strings.Count(log, "Refused a call"); n > most {
		t.Errorf("%d lines for %d calls in %v, want at most %d:\n%s", n, calls+1, took, most, log)
	}
}

func TestLargeRequestsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	large := &wire.ReclaimSpaceRequest{PvName: strings.Repeat("a", maxRequest)}
	_, err := wire.NewReclaimSpaceClient(f.connectPinned()).
		NodeReclaimSpace(f.with(forgedToken), large)
	if status.Code(err) != codes.ResourceExhausted || f.reviews() > 0 {
		t.Errorf("a large request returns %v after %d checks of tokens", err, f.reviews())
	}
}

func TestConnectionOfANoisyClientIsClosed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	connection := f.connectPinned() // gRPC clients cannot ping so often
	address := connection.Target()[len("passthrough:///"):]
	dialer := &tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"h2"}, //nolint:gosec // the server does not matter
	}}
	raw, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := io.WriteString(raw, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := raw.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(raw, raw)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		_ = framer.WritePing(false, [8]byte{}) // fails when the server has closed the connection
	}
	for limit := uint32(0); ; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("the server closes the connection without a reason: %v", err)
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if value, ok := frame.Value(http2.SettingMaxConcurrentStreams); ok {
				limit = value
			}
		case *http2.GoAwayFrame:
			if frame.ErrCode != http2.ErrCodeEnhanceYourCalm || limit != maxCalls {
				t.Errorf("after many pings the server sends %v; it allows %d calls", frame, limit)
			}
			return
		}
	}
}

func TestControllerRefusesAnotherCertificate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	pin := f.awaitAnnounced().Annotations[v1alpha1.CertificatePinAnnotation]
	other := strings.Map(func(r rune) rune {
		if r == 'a' || r == '0' {
			return '1'
		}
		return r
	}, pin) + "0"
	_, err := identity.NewIdentityClient(f.connect(other)).
		GetIdentity(f.with(controllerToken), &identity.GetIdentityRequest{})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "has the pin "+pin) {
		t.Errorf("with another pin the call returns: %v", err)
	}
	if n := f.reviews(); n != 0 {
		t.Errorf("the sidecar has seen %d tokens of a controller that expects another certificate", n)
	}
}

// reviews returns how many tokens were checked.
func (f *fixture) reviews() int {
	n := 0
	for _, action := range f.kube.Actions() {
		if action.Matches("create", "tokenreviews") {
			n++
		}
	}
	return n
}

func TestInsecureModeNeedsTheFlag(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("--enable-auth=false")
	node := f.awaitAnnounced()
	if pin, ok := node.Annotations[v1alpha1.CertificatePinAnnotation]; ok {
		t.Errorf("the insecure sidecar publishes the pin %s", pin)
	}
	answer, err := identity.NewIdentityClient(f.connect("")).
		GetIdentity(t.Context(), &identity.GetIdentityRequest{})
	if err != nil || answer.GetName() != driverName {
		t.Errorf("the insecure sidecar answers %v: %v", answer, err)
	}
	secure := newFixture(t)
	secure.run()
	if _, err := identity.NewIdentityClient(secure.connect("")).
		GetIdentity(secure.with(controllerToken), &identity.GetIdentityRequest{}); err == nil {
		t.Error("the sidecar answers without TLS although nobody has set the flag")
	}
}
