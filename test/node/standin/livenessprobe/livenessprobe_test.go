package main

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/openstack-csi/csi-operator/test/node/standin"
)

func TestHealthIsWhatTheDriverAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(ctx context.Context) (*csi.ProbeResponse, error)
		code   int
	}{
		"says nothing": {func(context.Context) (*csi.ProbeResponse, error) {
			return &csi.ProbeResponse{}, nil
		}, http.StatusOK},
		"ready": {func(context.Context) (*csi.ProbeResponse, error) {
			return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
		}, http.StatusOK},
		"not ready": {func(context.Context) (*csi.ProbeResponse, error) {
			return &csi.ProbeResponse{Ready: wrapperspb.Bool(false)}, nil
		}, http.StatusInternalServerError},
		"error": {func(context.Context) (*csi.ProbeResponse, error) {
			return nil, status.Error(codes.FailedPrecondition, "no cloud")
		}, http.StatusInternalServerError},
		"hangs": {func(ctx context.Context) (*csi.ProbeResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := serve(t, driver{probe: test.answer})
			timeout := "--probe-timeout=1m"
			if name == "hangs" {
				timeout = "--probe-timeout=100ms"
			}
			if code := health(t, "--csi-address="+socket, timeout); code != test.code {
				t.Errorf("HTTP %d, want %d", code, test.code)
			}
		})
	}
}

func TestMissingDriverIsUnhealthyAfterTheTimeout(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "csi.sock")
	code := health(t, "--csi-address="+missing, "--probe-timeout=100ms")
	if code != http.StatusInternalServerError {
		t.Errorf("HTTP %d", code)
	}
}

// health returns the status code of /healthz of a probe with the flags.
func health(t *testing.T, args ...string) int {
	t.Helper()
	p := &livenessProbe{}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	p.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	p.serveHealth(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz",
		http.NoBody))
	return recorder.Code
}

type driver struct {
	csi.UnimplementedIdentityServer

	probe func(ctx context.Context) (*csi.ProbeResponse, error)
}

func (d driver) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return d.probe(ctx)
}

// serve serves a driver until the test ends, and returns its socket.
func serve(t *testing.T, d driver) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "csi.sock")
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, d)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- standin.Serve(ctx, server, socket) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the driver did not stop")
		}
	})
	return socket
}
