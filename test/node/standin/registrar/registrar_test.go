package main

import (
	"context"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/openstack-csi/csi-operator/test/node/standin"
	"github.com/openstack-csi/csi-operator/test/openstack/port"
)

const onNode = "/var/lib/kubelet/plugins/demo.csi.example.com/csi.sock"

func TestRegistrarTellsKubeletWhereTheDriverIs(t *testing.T) {
	t.Parallel()
	running := start(t)
	info, err := running.kubelet.GetInfo(t.Context(), &registration.InfoRequest{},
		grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{info.GetType(), info.GetName(), info.GetEndpoint()}
	want := []string{"CSIPlugin", "demo.csi.example.com", onNode}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	running.notify(t, &registration.RegistrationStatus{PluginRegistered: true})
	if code := running.health(t); code != http.StatusOK {
		t.Errorf("/healthz returned HTTP %d", code)
	}
}

func TestRegistrarIsUnhealthyWithoutItsSocket(t *testing.T) {
	t.Parallel()
	running := start(t)
	running.notify(t, &registration.RegistrationStatus{PluginRegistered: true})
	if err := os.Remove(running.socket); err != nil {
		t.Fatal(err)
	}
	if code := running.health(t); code != http.StatusInternalServerError {
		t.Errorf("/healthz returned HTTP %d", code)
	}
}

func TestRegistrarEndsWhenKubeletRejectsTheDriver(t *testing.T) {
	t.Parallel()
	running := start(t)
	running.notify(t, &registration.RegistrationStatus{Error: "no such driver"})
	select {
	case err := <-running.ended:
		if err == nil || !strings.Contains(err.Error(), "no such driver") {
			t.Errorf("the registrar ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the registrar still runs")
	}
}

func TestRegistrarNeedsThePathOnTheNode(t *testing.T) {
	t.Parallel()
	err := (&registrar{}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--kubelet-registration-path") {
		t.Errorf("error %v", err)
	}
}

// running is a registrar that runs until the test ends.
type running struct {
	kubelet  registration.RegistrationClient
	socket   string // of the registration
	endpoint string
	ended    chan error // receives what Run returned
}

// start starts a driver, and a registrar that finds it only later.
func start(t *testing.T) running {
	t.Helper()
	folder := t.TempDir()
	driver, endpoint := filepath.Join(folder, "csi.sock"), freeAddress(t)
	r := &registrar{}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	r.AddFlags(flags)
	err := flags.Parse([]string{
		"--csi-address=" + driver, "--kubelet-registration-path=" + onNode,
		"--plugin-registration-path=" + folder, "--http-endpoint=" + endpoint,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()

	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, identity{})
	go func() {
		if err := standin.Serve(ctx, server, driver); err != nil {
			t.Error(err)
		}
	}()
	socket := filepath.Join(folder, "demo.csi.example.com-reg.sock")
	conn, err := standin.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return running{registration.NewRegistrationClient(conn), socket, endpoint, ended}
}

func (r running) notify(t *testing.T, status *registration.RegistrationStatus) {
	t.Helper()
	_, err := r.kubelet.NotifyRegistrationStatus(t.Context(), status, grpc.WaitForReady(true))
	if err != nil && status.GetPluginRegistered() {
		t.Fatal(err)
	}
}

// health returns the status code of /healthz. It waits until the registrar serves it.
func (r running) health(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"http://"+r.endpoint+"/healthz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
			return response.StatusCode
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// freeAddress returns an address of this machine that no other process gets before the test ends.
func freeAddress(t *testing.T) string {
	t.Helper()
	reserved, err := port.Reserve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reserved.Release() })
	return "127.0.0.1:" + strconv.Itoa(reserved.Port())
}

type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(
	context.Context, *csi.GetPluginInfoRequest,
) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "demo.csi.example.com"}, nil
}
