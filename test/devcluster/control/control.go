// Package control sends requests to the running devcluster, which writes its address to a file.
// Package command uses both ends.
package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/openstack/rpc"
)

// Action names what the devcluster can do.
type Action string

// The actions.
const (
	StopAPI               Action = "stop-api"
	StartAPI              Action = "start-api"
	RotateGuestKubeconfig Action = "rotate-guest-kubeconfig"
)

// Request has the arguments of an action, which ignores those that it does not need.
type Request struct {
	Side  cluster.Side
	Guest string
	How   controlplane.How
}

// Target carries out requests. It is the cluster.
type Target interface {
	StopAPI(ctx context.Context, side cluster.Side, guest string, how controlplane.How) error
	StartAPI(ctx context.Context, side cluster.Side, guest string) error
	RotateGuestKubeconfig(ctx context.Context, guest string) error
}

const headerTimeout = 10 * time.Second

// Serve handles requests until the returned function is called. It writes its address to a file.
func Serve(ctx context.Context, file string, t Target) (stop func(), err error) {
	mux := http.NewServeMux()
	for action, do := range map[Action]func(context.Context, Request) error{
		StopAPI: func(ctx context.Context, r Request) error {
			return t.StopAPI(ctx, r.Side, r.Guest, r.How)
		},
		StartAPI: func(ctx context.Context, r Request) error { return t.StartAPI(ctx, r.Side, r.Guest) },
		RotateGuestKubeconfig: func(ctx context.Context, r Request) error {
			return t.RotateGuestKubeconfig(ctx, r.Guest)
		},
	} {
		rpc.Handle(mux, string(action), func(ctx context.Context, r Request) (rpc.None, error) {
			return rpc.None{}, do(ctx, r)
		})
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for requests: %w", err)
	}
	if err := paths.WriteFile(file, []byte("http://"+listener.Addr().String()+"\n")); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	go func() { _ = server.Serve(listener) }() // it returns when the server is closed
	return func() { _, _ = os.Remove(file), server.Close() }, nil
}

// Send sends a request to the cluster that wrote the file, and waits until it is carried out.
func Send(ctx context.Context, file string, action Action, r Request) error {
	address, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("no devcluster runs here: %w", err)
	}
	_, err = rpc.Call[rpc.None](ctx, strings.TrimSpace(string(address)), string(action), r)
	return err
}
