package callers_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/callers"
)

const soon = 30 * time.Second

// pair is a connection: the side of the client, and that of the server.
type pair struct {
	client net.Conn
	server *callers.Connection
}

// connector connects clients to a Listener.
type connector struct {
	*testing.T

	listener *callers.Listener
}

func newConnector(t *testing.T, limits callers.Connections) *connector {
	t.Helper()
	var config net.ListenConfig
	tcp, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := callers.Limit(tcp, limits)
	t.Cleanup(func() { _ = listener.Close() })
	return &connector{t, listener}
}

// connect connects from an address of this machine.
func (c *connector) connect(from string) pair {
	c.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client, err := dialer.DialContext(c.Context(), "tcp", c.listener.Addr().String())
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = client.Close() })
	server, err := c.listener.Accept()
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = server.Close() })
	if err := client.SetDeadline(time.Now().Add(soon)); err != nil {
		c.Fatal(err)
	}
	return pair{client, server.(*callers.Connection)}
}

// open checks that a connection is open: the server sends and the client receives.
func (c *connector) open(which string, p pair) {
	c.Helper()
	if _, err := io.WriteString(p.server, "a"); err != nil {
		c.Errorf("%s is closed: %v", which, err)
	} else if _, err := io.ReadFull(p.client, make([]byte, 1)); err != nil {
		c.Errorf("%s is closed: %v", which, err)
	}
}

// closed waits until the server has closed a connection.
func (c *connector) closed(which string, p pair) {
	c.Helper()
	_, err := io.ReadFull(p.client, make([]byte, 1))
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.Errorf("%s is still open: %v", which, err)
	}
}

func TestNewStrangerReplacesTheOldestOfItsNetwork(t *testing.T) {
	t.Parallel()
	c := newConnector(t, callers.Connections{
		Strangers: 3, OfNetwork: 2, Known: 1, Time: time.Hour, Bytes: 1,
	})
	known := c.connect("127.0.0.1")
	known.server.Keep()
	known.server.Keep() // counts once
	first, second := c.connect("127.0.0.1"), c.connect("127.0.0.1")
	third := c.connect("127.0.0.1")
	c.closed("the first of three from one address", first)
	fromOther := c.connect("127.0.0.2")
	fromThird := c.connect("127.0.0.3")
	c.closed("the oldest of the address with most connections", second)
	_ = third.server.Close()
	_ = third.server.Close() // counts once
	last := c.connect("127.0.0.1")
	for which, p := range map[string]pair{
		"the connection of a known client": known, "the second address": fromOther,
		"the third address": fromThird, "the last one": last,
	} {
		c.open(which, p)
	}
}

func TestStrangersAreDisconnectedAfterATime(t *testing.T) {
	t.Parallel()
	c := newConnector(t, callers.Connections{
		Strangers: 4, OfNetwork: 4, Known: 1, Time: 2 * time.Second, Bytes: 1,
	})
	known, beyond := c.connect("127.0.0.1"), c.connect("127.0.0.1")
	known.server.Keep()
	beyond.server.Keep() // without effect
	c.closed("a silent connection", c.connect("127.0.0.1"))
	c.closed("a connection beyond the limit of known ones", beyond)
	c.open("the connection of a known client", known)
	_ = known.server.Close()
	next := c.connect("127.0.0.1")
	next.server.Keep()
	c.closed("a silent connection", c.connect("127.0.0.1"))
	c.open("the next known client", next)
}

func TestStrangersMaySendLittle(t *testing.T) {
	t.Parallel()
	const limit = 10
	c := newConnector(t, callers.Connections{
		Strangers: 2, OfNetwork: 2, Known: 1, Time: time.Hour, Bytes: limit,
	})
	known, stranger := c.connect("127.0.0.1"), c.connect("127.0.0.1")
	known.server.Keep()
	for _, p := range []pair{known, stranger} {
		if _, err := p.client.Write(make([]byte, limit+1)); err != nil {
			t.Fatal(err)
		}
		_, err := io.ReadFull(p.server, make([]byte, limit+1))
		if (err == nil) != (p == known) {
			t.Errorf("reading more than the limit returns %v, from a known client: %t", err, p == known)
		}
	}
}
