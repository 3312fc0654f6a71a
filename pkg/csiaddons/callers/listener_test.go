package callers_test

import (
	"io"
	"net"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/callers"
)

func TestListenerLimitsTheConnectionsOfANetwork(t *testing.T) {
	t.Parallel()
	const all, each = 3, 2
	var config net.ListenConfig
	tcp, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := callers.Limit(tcp, all, each)
	t.Cleanup(func() { _ = listener.Close() })
	accepted := make(chan net.Conn)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- connection
		}
	}()
	var servers []net.Conn
	// dial connects from an address of this machine, and returns whether the connection stays open.
	dial := func(from string) bool {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		client, err := dialer.DialContext(t.Context(), "tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		closed := make(chan struct{})
		go func() {
			_, _ = io.ReadFull(client, make([]byte, 1)) // returns when the connection is closed
			close(closed)
		}()
		select {
		case server := <-accepted:
			servers = append(servers, server)
			return true
		case <-closed:
			return false
		}
	}
	check := func(from string, want bool) {
		t.Helper()
		if got := dial(from); got != want {
			t.Errorf("after %d connections, one from %s stays open: %t, want %t", len(servers), from,
				got, want)
		}
	}
	check("127.0.0.1", true)
	check("127.0.0.1", true)
	check("127.0.0.1", false)
	check("127.0.0.2", true)
	check("127.0.0.3", false)
	_ = servers[0].Close()
	_ = servers[0].Close() // counts once
	check("127.0.0.1", true)
	check("127.0.0.3", false)
	for _, server := range servers[1:] {
		_ = server.Close()
	}
}
