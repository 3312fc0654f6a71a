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
	_, err := identity.NewIdentityClient(f.connectPinned()).
		GetIdentity(f.with(token), &identity.GetIdentityRequest{})
	return status.Code(err)
}

func TestOnlyTheControllerMayCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	for token, want := range map[string]codes.Code{
		controllerToken:                 codes.OK,
		strangerToken:                   codes.PermissionDenied,
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
		wire.TokenPrefix+strangerToken)
	_, err = client.GetIdentity(twice, &identity.GetIdentityRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call with two tokens returns %v", err)
	}
}

// A stranger who sends only the beginning of a request cannot fill the memory of the sidecar.
func TestCallsOfStrangersAreRefusedBeforeTheirRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	description := &grpc.StreamDesc{ClientStreams: true}
	stream, err := f.connectPinned().NewStream(f.with(otherPodToken), description,
		identity.Identity_GetIdentity_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	err = stream.RecvMsg(&identity.GetIdentityResponse{}) // without a request
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call without a request returns %v, want %v", err, codes.Unauthenticated)
	}
}

func TestListOfServiceAccountsReplacesTheAccessReview(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("--allowed-service-accounts=csi/other")
	for token, want := range map[string]codes.Code{
		strangerToken: codes.OK, controllerToken: codes.PermissionDenied,
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

func TestClientsWithoutAValidTokenAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	client := identity.NewIdentityClient(f.connectPinned(from("127.0.0.2")))
	limited := false
	for n := range 100 * reviewBurst {
		forged := tokenFor("csiaddons.openshift.io/uid-a", strconv.Itoa(n))
		_, err := client.GetIdentity(f.with(forged), &identity.GetIdentityRequest{})
		if limited = status.Code(err) == codes.ResourceExhausted; limited {
			break
		}
	}
	if !limited {
		t.Error("a client without a valid token is not limited")
	}
	// The controller has another IP address.
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

// The controller can share its address with other clients: behind a node that translates addresses.
func TestAcceptedClientIsNotLimitedWithItsNeighbours(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("--allowed-service-accounts=csi/other,csi-addons-system/csi-addons-controller-manager")
	own := identity.NewIdentityClient(f.connectPinned())
	if _, err := own.GetIdentity(f.with(controllerToken), &identity.GetIdentityRequest{}); err != nil {
		t.Fatal(err)
	}
	neighbour := identity.NewIdentityClient(f.connectPinned())
	limited := false
	for n := range 100 * reviewBurst {
		forged := tokenFor("csiaddons.openshift.io/uid-a", strconv.Itoa(n))
		_, err := neighbour.GetIdentity(f.with(forged), &identity.GetIdentityRequest{})
		if limited = status.Code(err) == codes.ResourceExhausted; limited {
			break
		}
	}
	if !limited {
		t.Error("a client without a valid token is not limited")
	}
	// The next token of the controller.
	if _, err := own.GetIdentity(f.with(strangerToken), &identity.GetIdentityRequest{}); err != nil {
		t.Errorf("the next valid token of a client is refused: %v", err)
	}
}

func TestStrangersCauseNoRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	for n := range 2 * reviewBurst {
		client := identity.NewIdentityClient(f.connectPinned())
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
	began := time.Now()
	for range 3 {
		if got := f.call(strangerToken); got != codes.PermissionDenied {
			t.Errorf("the call of a stranger returns %v", got)
		}
	}
	took := time.Since(began)
	if n := f.reviews(); n > 1+int(took/refusedFor) {
		t.Errorf("the same refused token was checked %d times in %v", n, took)
	}
}

// The log of a refused call contains the IP address of the caller, and is limited for each address.
func TestLogNamesRefusedCallers(t *testing.T) {
	t.Parallel()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	a := newAccess(&Settings{}, kubefake.NewClientset())
	for _, address := range []string{"10.0.0.1", "10.0.0.1", "fd00::1"} {
		ctx := peer.NewContext(klog.NewContext(t.Context(), logger),
			&peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 1}})
		_, err := a.check(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/B"}, nil)
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("the call returns %v", err)
		}
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for address, want := range map[string]int{`caller="10.0.0.1"`: 1, `caller="fd00::1"`: 1} {
		if n := strings.Count(log, address); n != want {
			t.Errorf("%d lines contain %s, want %d:\n%s", n, address, want, log)
		}
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
