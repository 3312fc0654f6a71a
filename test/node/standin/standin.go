// Package standin contains the code that the stand-ins in its folders share; only they call it. A
// stand-in replaces a program that no Go module proxy serves, and has the flags, sockets and ports
// of it that the operands use. Only the images of a real node contain stand-ins; no release does.
package standin

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
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
)

// Program is the job of a stand-in.
type Program interface {
	// AddFlags declares the flags.
	AddFlags(flags *flag.FlagSet)
	// Run runs until the context ends.
	Run(ctx context.Context) error
}

// Main runs a program until a signal ends it, and returns the exit code. Besides its own flags, the
// program accepts those of klog, such as -v.
func Main(name string, program Program) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer klog.Flush()
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	klog.InitFlags(flags)
	program.AddFlags(flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	if err := program.Run(ctx); err != nil {
		klog.ErrorS(err, "Exiting")
		return 1
	}
	return 0
}

// Socket returns the path of a socket in the forms that CSI components accept: /csi/csi.sock,
// unix:///csi/csi.sock and unix://csi/csi.sock.
func Socket(endpoint string) string {
	path, isURL := strings.CutPrefix(endpoint, "unix://")
	if isURL {
		path = "/" + strings.TrimLeft(path, "/")
	}
	return path
}

// Dial returns a connection to a gRPC server on a socket. It connects at the first call, and again
// after a second at most if the server is away.
func Dial(endpoint string) (*grpc.ClientConn, error) {
	retry := backoff.DefaultConfig
	retry.MaxDelay = time.Second
	return grpc.NewClient("unix:"+Socket(endpoint),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry}))
}

// Serve serves gRPC on a socket until the context ends. It replaces the socket of an earlier
// process, and removes its own.
func Serve(ctx context.Context, server *grpc.Server, socket string) error {
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

// ServeHTTP serves HTTP on an address until the context ends, or HTTPS if there is a TLS
// configuration.
func ServeHTTP(
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
