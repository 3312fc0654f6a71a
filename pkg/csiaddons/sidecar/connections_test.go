package sidecar

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// counting returns the option of a client that counts its connections.
func counting(connections *atomic.Int32) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) {
		connections.Add(1)
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", target)
	})
}

func TestClientWithoutAnAcceptedTokenIsDisconnectedAfterATime(t *testing.T) {
	t.Parallel()
	for _, accepted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { // the time of the bubble passes without waiting
			server, caller := net.Pipe()
			defer server.Close()
			_, info, err := temporary{insecure.NewCredentials()}.ServerHandshake(server)
			if err != nil {
				t.Fatal(err)
			}
			if accepted {
				info.(*client).accept()
			}
			if err := caller.SetReadDeadline(time.Now().Add(2 * tokenTimeout)); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = io.ReadFull(caller, make([]byte, 1))
			if took := time.Since(began); (took == tokenTimeout) == accepted {
				t.Errorf("accepted: %v: the connection ends after %v: %v", accepted, took, err)
			}
		})
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	listener, err := listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, maxConnections+1)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- connection
		}
	}()
	for range maxConnections + 1 {
		var dialer net.Dialer
		connection, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
	}
	var first net.Conn
	for range maxConnections {
		first = <-accepted
	}
	select {
	case <-accepted:
		t.Error("the sidecar accepts another connection")
	case <-time.After(100 * time.Millisecond): // it would follow immediately
	}
	_ = first.Close()
	<-accepted
}

func TestSilentClientsDoNotDisconnectTheController(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--enable-auth=true", "--enable-auth=false"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.run(flag)
			var connections atomic.Int32
			own := f.connectPinned(counting(&connections))
			call := func(connection grpc.ClientConnInterface) {
				t.Helper()
				_, err := identity.NewIdentityClient(connection).GetIdentity(f.with(controllerToken),
					&identity.GetIdentityRequest{}, grpc.WaitForReady(true))
				if err != nil {
					t.Error(err)
				}
			}
			call(own)
			address := own.Target()[len("passthrough:///"):]
			for range maxConnections {
				var dialer net.Dialer
				silent, err := dialer.DialContext(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = silent.Close() })
			}
			call(own)
			call(f.connectPinned()) // waits until silent connections end
			if n := connections.Load(); n != 1 {
				t.Errorf("the controller had to connect %d times", n)
			}
		})
	}
}
