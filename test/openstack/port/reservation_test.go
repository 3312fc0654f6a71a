//go:build linux

package port

import (
	"context"
	"errors"
	"net"
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
