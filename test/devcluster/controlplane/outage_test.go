package controlplane

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A reserved port refuses connections, is taken for everyone else, and can be
// listened on as soon as it is free.
func TestReservedPort(t *testing.T) {
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
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	reserved, err := reserve(host, port)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting gives %v, %v", connection, err)
	}
	if err := errors.Join(reserved.free(), reserved.free()); err != nil {
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

func TestReserveExplains(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ host, port, want string }{
		"no port":     {"127.0.0.1", "http", `decoding port "http"`},
		"no address":  {"localhost", "80", `"localhost" is no IPv4 address`},
		"not of ours": {"192.0.2.1", "80", "reserving port 80"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := reserve(test.host, test.port); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

func TestSuspendAndResumeNeedAnAPIServer(t *testing.T) {
	t.Parallel()
	c := &ControlPlane{opts: Options{Dir: t.TempDir(), Binaries: t.TempDir()}}
	for how, want := range map[How]string{"vanish": "only refuse|hang", Hang: "found 0 processes", Refuse: "found 0 processes"} {
		if err := c.Suspend(t.Context(), how); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("suspending by %s gives %v, want %q", how, err, want)
		}
	}
	if err := c.Resume(t.Context()); err == nil || !strings.Contains(err.Error(), "not away") {
		t.Errorf("resuming gives %v", err)
	}
}
