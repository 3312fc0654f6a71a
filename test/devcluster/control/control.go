// Package control lets a command tell the running devcluster what to do, over HTTP
// on loopback; a file says where. Package command uses both ends.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
)

// Action is what can be requested.
type Action string

// The actions.
const (
	StopAPI               Action = "stop-api"
	StartAPI              Action = "start-api"
	RotateGuestKubeconfig Action = "rotate-guest-kubeconfig"
)

// Request is one request. What an action has no use for is ignored.
type Request struct {
	Action Action           `json:"action"`
	Side   cluster.Side     `json:"side,omitempty"`
	Guest  string           `json:"guest,omitempty"`
	How    controlplane.How `json:"how,omitempty"`
}

// Target obeys requests. It is the cluster.
type Target interface {
	StopAPI(ctx context.Context, side cluster.Side, guest string, how controlplane.How) error
	StartAPI(ctx context.Context, side cluster.Side, guest string) error
	RotateGuestKubeconfig(ctx context.Context, guest string) error
}

const (
	requestsPath  = "/requests"
	headerTimeout = 10 * time.Second
)

// address is the content of the file.
type address struct {
	URL string `json:"url"`
}

// Serve takes requests until the function it returns is called, and writes to a file
// where.
func Serve(ctx context.Context, file string, t Target) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for requests: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+requestsPath, func(w http.ResponseWriter, r *http.Request) { answer(w, r, t) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	content, err := json.Marshal(address{URL: "http://" + listener.Addr().String()})
	if err == nil {
		err = os.WriteFile(file, append(content, '\n'), 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("saying where requests are taken: %w", err), listener.Close())
	}
	go func() {
		_ = server.Serve(listener) // it ends only when it is closed
	}()
	return func() {
		// Nobody is left to care.
		_, _ = os.Remove(file), server.Close()
	}, nil
}

func answer(w http.ResponseWriter, r *http.Request, t Target) {
	var request Request
	err := json.NewDecoder(r.Body).Decode(&request)
	if err == nil {
		err = handle(r.Context(), request, t)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func handle(ctx context.Context, o Request, t Target) error {
	switch o.Action {
	case StopAPI:
		return t.StopAPI(ctx, o.Side, o.Guest, o.How)
	case StartAPI:
		return t.StartAPI(ctx, o.Side, o.Guest)
	case RotateGuestKubeconfig:
		return t.RotateGuestKubeconfig(ctx, o.Guest)
	}
	return fmt.Errorf("action %q is not known", o.Action)
}
