//go:build integration && long

package csiaddons

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
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
			dead := server{driver: "cinder", address: "127.2." + host, pin: pin, port: deadPort}
			return addSidecarObject(ctx, w.client, fmt.Sprintf("a-dead-%d", n), dead)
		})
		group.Go(func() error {
			live := server{driver: "cinder", address: "127.1." + host, pin: pin, port: livePort}
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
	// On a busy machine, a sidecar that answers may be tried again; those that do not get no token.
	if got := requests[request{"create", "serviceaccounts/token"}]; got > sidecarsEach*11/10 {
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
