package sidecar

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// longTimeout is near the longest timeout that a gRPC client can send.
const longTimeout = 1_000_000 * time.Hour

// counting returns the option of a client that counts its connections.
func counting(connections *atomic.Int32) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) {
		connections.Add(1)
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", target)
	})
}

// Without an end of its context, the timer of a refused call would stay until its deadline.
func TestContextsOfRefusedCallsEndWithTheirConnection(t *testing.T) {
	t.Parallel()
	refused := make(chan context.Context, 1)
	server := grpc.NewServer(grpc.StatsHandler(connections{NewMetrics().connections}),
		grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
			refused <- ctx
			return nil, status.Error(codes.Unauthenticated, "refused")
		}))
	listener, err := listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient("passthrough:///"+listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	_, err = identity.NewIdentityClient(connection).GetIdentity(ctx, &identity.GetIdentityRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("the call returns %v", err)
	}
	_ = connection.Close()
	select {
	case <-(<-refused).Done():
	case <-time.After(soon):
		t.Error("the context of the call does not end")
	}
}

func TestStrangerIsDisconnectedAfterSomeCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	var connections atomic.Int32
	client := identity.NewIdentityClient(f.connectPinned(counting(&connections)))
	const times = 4
	for range times * strangerCalls {
		_, err := client.GetIdentity(f.with(otherPodToken), &identity.GetIdentityRequest{})
		if err == nil {
			t.Fatal("the call of a stranger succeeds")
		}
	}
	if n := connections.Load(); n < times-1 {
		t.Errorf("a stranger sent %d calls on %d connections", times*strangerCalls, n)
	}
	connections.Store(0)
	client = identity.NewIdentityClient(f.connectPinned(counting(&connections)))
	for range times * strangerCalls {
		_, err := client.GetIdentity(f.with(controllerToken), &identity.GetIdentityRequest{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("the controller sent its calls on %d connections", n)
	}
}

func TestSilentStrangersDoNotDisconnectTheController(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--enable-auth=true", "--enable-auth=false"} {
		f := newFixture(t)
		f.run(flag)
		var connections atomic.Int32
		own := f.connectPinned(counting(&connections))
		call := func(connection grpc.ClientConnInterface) {
			t.Helper()
			_, err := identity.NewIdentityClient(connection).GetIdentity(f.with(controllerToken),
				&identity.GetIdentityRequest{})
			if err != nil {
				t.Errorf("with %s: %v", flag, err)
			}
		}
		call(own)
		address := own.Target()[len("passthrough:///"):]
		var first net.Conn
		for range maxOfNetwork + 1 {
			var dialer net.Dialer
			silent, err := dialer.DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = silent.Close() })
			if first == nil {
				first = silent
			}
		}
		if err := first.SetReadDeadline(time.Now().Add(connectTimeout / 2)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, first); err != nil {
			t.Errorf("with %s the oldest of too many silent connections stays: %v", flag, err)
		}
		call(f.connectPinned()) // a new connection
		call(own)
		if n := connections.Load(); n != 1 {
			t.Errorf("with %s the controller had to connect %d times", flag, n)
		}
	}
}
