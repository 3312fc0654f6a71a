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
	"gotest.tools/v3/assert"
)

func TestClientWithoutAnAcceptedTokenIsDisconnectedAfterATime(t *testing.T) {
	t.Parallel()
	for _, accepted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { // the time of the bubble passes without waiting
			server, caller := net.Pipe()
			defer server.Close()
			_, info, err := temporary{insecure.NewCredentials()}.ServerHandshake(server)
			assert.NilError(t, err)
			if accepted {
				info.(*client).accept()
			}
			assert.NilError(t, caller.SetReadDeadline(time.Now().Add(2*tokenTimeout)))
			began := time.Now()
			_, err = io.ReadFull(caller, make([]byte, 1))
			if took := time.Since(began); (took == tokenTimeout) == accepted {
				t.Errorf("accepted: %v: the connection ends after %v: %v", accepted, took, err)
			}
		})
	}
}

func TestSilentClientsDoNotDisconnectTheController(t *testing.T) {
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
			&identity.GetIdentityRequest{}, grpc.WaitForReady(true))
		assert.Check(t, err)
	}
	call(own)
	address := own.Target()[len("passthrough:///"):]
	for range maxConnections {
		var dialer net.Dialer
		silent, err := dialer.DialContext(t.Context(), "tcp", address)
		assert.NilError(t, err)
		t.Cleanup(func() { _ = silent.Close() })
	}
	call(own)
	began := time.Now()
	call(f.connectPinned())
	if took := time.Since(began); took < connectTimeout/2 {
		t.Errorf("a connection beyond the limit took %v: it did not wait until silent ones end", took)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("the controller had to connect %d times", n)
	}
}
