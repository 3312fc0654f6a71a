//go:build integration && long

package csiaddons

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// sidecarsEach is the number of sidecars that answer, and of those that do not.
	sidecarsEach = 500
	// connectedWithin is the bound for the connections to those that answer.
	// docs/csi-addons/reference.md contains what was measured. The attempts to the others take more
	// time, one after another.
	connectedWithin = 2 * time.Minute
)

// TestHalfOfAThousandSidecarsAreDead checks that sidecars whose hosts do not answer do not delay
// the connections to the others. The names of the dead ones come first in all lists.
func TestHalfOfAThousandSidecarsAreDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	livePort, pin := w.serveIdentity(&fakeDriver{name: "cinder", services: services{nodeService}})
	deadPort := w.listenWithoutAnswer()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(20)
	for n := range sidecarsEach {
		host := fmt.Sprintf("%d.%d", n/250, n%250+1)
		group.Go(func() error {
			dead := server{address: "127.2." + host, pin: pin, port: deadPort}
			return addSidecarObject(ctx, w.client, fmt.Sprintf("a-dead-%d", n), dead)
		})
		group.Go(func() error {
			live := server{address: "127.1." + host, pin: pin, port: livePort}
			return addSidecarObject(ctx, w.client, fmt.Sprintf("live-%d", n), live)
		})
	}
	w.must(group.Wait())

	before := heap()
	began := time.Now()
	w.startController("--driver-namespaces=cinder=" + driverNamespace)
	w.awaitStates(v1alpha1.CSIAddonsNodeConnected, connectedWithin)
	took, memory := time.Since(began), heap()-before
	w.awaitStates(v1alpha1.CSIAddonsNodeRetrying, connectedWithin)
	requests := w.requests()
	t.Logf("%d sidecars connected after %v, all %d tried after %v; heap of both sides %d KiB per "+
		"connection; %d writes of a status, %d requests for a token", sidecarsEach,
		took.Round(100*time.Millisecond), 2*sidecarsEach,
		time.Since(began).Round(100*time.Millisecond), memory/sidecarsEach>>10,
		requests[request{"patch", "csiaddonsnodes/status"}],
		requests[request{"create", "serviceaccounts/token"}])
	if got := requests[request{"create", "serviceaccounts/token"}]; got > sidecarsEach {
		t.Errorf("%d tokens are requested for %d sidecars that answer", got, sidecarsEach)
	}
}

// heap returns the bytes of reachable objects.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// server is where a sidecar should answer, and the pin of its key.
type server struct {
	address, pin string
	port         uint16
}

// addSidecarObject creates a pod with an address, which no kubelet runs, and its CSIAddonsNode.
func addSidecarObject(ctx context.Context, kube client.Client, name string, at server) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "none", Containers: []corev1.Container{{Name: "a", Image: "a"}},
		},
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, soon, true,
		func(ctx context.Context) (bool, error) { // the ServiceAccount may not exist yet
			return kube.Create(ctx, pod) == nil, nil
		})
	if err != nil {
		return fmt.Errorf("creating pod %s: %w", name, err)
	}
	pod.Status.PodIP, pod.Status.PodIPs = at.address, []corev1.PodIP{{IP: at.address}}
	if err := kube.Status().Update(ctx, pod); err != nil {
		return err
	}
	node := sidecarObject("cinder", pod, name)
	node.Annotations[v1alpha1.CertificatePinAnnotation] = at.pin
	endpoint := wire.Endpoint{Pod: name, Namespace: pod.Namespace, Port: at.port}
	node.Spec.Driver.EndPoint = endpoint.String()
	return kube.Create(ctx, node)
}

// awaitStates waits until half of the CSIAddonsNodes have a state.
func (w *world) awaitStates(state v1alpha1.CSIAddonsNodeState, within time.Duration) {
	w.Helper()
	count := 0
	err := wait.PollUntilContextTimeout(w.Context(), 500*time.Millisecond, within, true,
		func(ctx context.Context) (bool, error) {
			var list v1alpha1.CSIAddonsNodeList
			if err := w.client.List(ctx, &list); err != nil {
				return false, err
			}
			count = 0
			for i := range list.Items {
				if list.Items[i].Status.State == state {
					count++
				}
			}
			return count == sidecarsEach, nil
		})
	if err != nil {
		w.Fatalf("%d of %d CSIAddonsNodes have the state %s after %v", count, sidecarsEach, state, within)
	}
}

// serveIdentity serves the identity of a driver on a port of all addresses. It returns the pin.
func (w *world) serveIdentity(d *fakeDriver) (uint16, string) {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	w.must(err)
	certificate, err := x509.ParseCertificate(encoded)
	w.must(err)
	listener, err := (&net.ListenConfig{}).Listen(w.Context(), "tcp", "0.0.0.0:0")
	w.must(err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{encoded}, PrivateKey: key}},
	})))
	identity.RegisterIdentityServer(server, d)
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	w.Cleanup(server.Stop)
	return netip.MustParseAddrPort(listener.Addr().String()).Port(), wire.Pin(certificate)
}

// listenWithoutAnswer returns a port of all addresses that does not answer, as a host that is down.
// Nobody accepts the connections that fill its queue, so Linux drops requests for others.
func (w *world) listenWithoutAnswer() uint16 {
	w.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	w.must(err)
	w.Cleanup(func() { _ = syscall.Close(socket) })
	w.must(syscall.Bind(socket, &syscall.SockaddrInet4{}))
	w.must(syscall.Listen(socket, 0))
	name, err := syscall.Getsockname(socket)
	w.must(err)
	port := uint16(name.(*syscall.SockaddrInet4).Port)
	dialer := net.Dialer{Timeout: time.Second}
	for range 10 {
		connection, err := dialer.DialContext(w.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return port
		}
		w.Cleanup(func() { _ = connection.Close() })
	}
	w.Fatal("a port whose queue is full answers")
	return 0
}
