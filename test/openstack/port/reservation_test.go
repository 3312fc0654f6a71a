//go:build linux

package port

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReservedPortRefusesConnections(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	first, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := first.Addr().String()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	reserved, err := Reserve(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting gives %v, %v", connection, err)
	}
	if err := errors.Join(reserved.Release(), reserved.Release()); err != nil {
		t.Error(err)
	}
	second, err := config.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("the port is not free again: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestReserveNamesAddress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ address, want string }{
		"no port":     {"127.0.0.1:http", `reserving "127.0.0.1:http"`},
		"no address":  {"[::1]:80", "not an IPv4 address"},
		"not of ours": {"192.0.2.1:80", "reserving 192.0.2.1:80"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Reserve(test.address); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}
