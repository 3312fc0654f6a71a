// Command standin contains the stand-ins. Each replaces a program that no Go module proxy serves,
// and has the flags, sockets and ports of it that the operands use. The name of the program selects
// one. Only the images of a real node contain stand-ins; no release does.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
)

type program interface {
	// AddFlags declares the flags.
	AddFlags(flags *flag.FlagSet)
	// Run runs until the context ends.
	Run(ctx context.Context) error
}

// programs returns the stand-ins by the names of the programs that they replace.
func programs() map[string]program {
	return map[string]program{
		"csi-node-driver-registrar": &registrar{}, "livenessprobe": &livenessProbe{},
		"kube-rbac-proxy": &proxy{}, "nfsplugin": &nfsPlugin{},
	}
}

func main() { os.Exit(run(os.Args)) }

// run runs a program until a signal ends it, and returns the exit code. Besides its own flags, the
// program accepts those of klog, such as -v.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer klog.Flush()
	name := filepath.Base(args[0])
	selected := programs()[name]
	if selected == nil {
		klog.Errorf("There is no stand-in of %s", name)
		return 2
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	klog.InitFlags(flags)
	selected.AddFlags(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	if err := selected.Run(ctx); err != nil {
		klog.ErrorS(err, "Exiting")
		return 1
	}
	return 0
}

// socketPath returns the path of a socket in the forms that CSI components accept: /csi/csi.sock,
// unix:///csi/csi.sock and unix://csi/csi.sock.
func socketPath(endpoint string) string {
	path, isURL := strings.CutPrefix(endpoint, "unix://")
	if isURL {
		path = "/" + strings.TrimLeft(path, "/")
	}
	return path
}

// dial returns a connection to a gRPC server on a socket. It connects at the first call, and again
// after a second at most if the server is away.
func dial(endpoint string) (*grpc.ClientConn, error) {
	retry := backoff.DefaultConfig
	retry.MaxDelay = time.Second
	return grpc.NewClient("unix:"+socketPath(endpoint),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry}))
}

// serve serves gRPC on a socket until the context ends. It replaces the socket of an earlier
// process, and removes its own.
func serve(ctx context.Context, server *grpc.Server, socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	klog.InfoS("Serving gRPC", "socket", socket)
	return server.Serve(listener)
}

// serveHealth serves /healthz, which returns 500 if a check fails.
func serveHealth(ctx context.Context, address string, check func(context.Context) error) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Context()); err != nil {
			klog.ErrorS(err, "Unhealthy")
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "ok")
	})
	return serveHTTP(ctx, address, mux, nil)
}

// serveHTTP serves HTTP on an address until the context ends, or HTTPS if there is a TLS
// configuration.
func serveHTTP(
	ctx context.Context, address string, handler http.Handler, security *tls.Config,
) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler, TLSConfig: security, ReadHeaderTimeout: 10 * time.Second,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	klog.InfoS("Serving HTTP", "address", listener.Addr().String())
	if security != nil {
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving %s: %w", address, err)
}
