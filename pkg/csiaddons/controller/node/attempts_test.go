package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

const soon = 30 * time.Second

// fixture is a network in which hosts answer, or do not.
type fixture struct {
	*attempts

	t *testing.T
	// dialled receives the address of each attempt to a host that does not answer, which blocks until
	// somebody reads from refused.
	dialled chan string
	refused chan struct{}
	woken   chan types.NamespacedName
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		t: t, dialled: make(chan string, 10_000), refused: make(chan struct{}),
		woken: make(chan types.NamespacedName, 10_000),
	}
	f.attempts = newAttempts(f.connect, func(_ context.Context, name types.NamespacedName) {
		f.woken <- name
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cancel()
	t.Cleanup(func() {
		if err := f.stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) connect(ctx context.Context, _ types.NamespacedName, target connection.Target,
) ([]string, error) {
	if target.Driver == "live" {
		return []string{connection.NodeService}, nil
	}
	f.dialled <- target.Address
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.refused:
		return nil, errors.New("no answer")
	}
}

func sidecar(n int, driver string) (types.NamespacedName, connection.Target) {
	name := types.NamespacedName{Namespace: "csi", Name: fmt.Sprint(driver, n)}
	return name, connection.Target{
		Driver: driver, Address: net.JoinHostPort(fmt.Sprintf("10.0.%d.%d", n/256, n%256), "9070"),
	}
}

// receive returns the next message of a channel.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	var got T
	select {
	case got = <-from:
	case <-time.After(soon):
		t.Fatalf("nothing happens for %v", soon)
	}
	return got
}

func (f *fixture) begin(name types.NamespacedName, target connection.Target) {
	f.t.Helper()
	if again := f.start(f.t.Context(), name, target); again != 0 {
		f.t.Fatalf("the attempt %s does not start", name)
	}
}

// fail lets the first attempts to connect to sidecars fail, and starts the second ones.
func (f *fixture) fail(number int) {
	f.t.Helper()
	for n := range number {
		f.begin(sidecar(n, "dead"))
	}
	for range number {
		receive(f.t, f.dialled)
		f.refused <- struct{}{}
		receive(f.t, f.woken)
	}
	for n := range number {
		name, target := sidecar(n, "dead")
		got := f.take(name, target)
		if got == nil || got.err == nil || got.failed != 1 || f.take(name, target) != nil {
			f.t.Fatalf("the attempt %s has the result %+v, or two", name, got)
		}
		f.begin(name, target)
	}
}

func TestSidecarsThatDoNotAnswerDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fail(3 * maxAttempts)
	for range maxRepeated {
		receive(t, f.dialled)
	}
	for n := range 500 {
		f.begin(sidecar(n, "live"))
	}
	for range 500 {
		name := receive(t, f.woken)
		var n int
		if _, err := fmt.Sscanf(name.Name, "live%d", &n); err != nil {
			t.Fatalf("the attempt %s ends although its host does not answer", name.Name)
		}
		if got := f.take(sidecar(n, "live")); got == nil || got.err != nil || len(got.capabilities) != 1 {
			t.Errorf("the attempt %s has the result %+v", name, got)
		}
	}
	if len(f.dialled) != 0 {
		t.Errorf("more than %d attempts to sidecars that have failed run", maxRepeated)
	}
}

func TestAttemptsToOneHostAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const address = "10.0.0.1:9070"
	for n := range maxPerHost {
		name, _ := sidecar(n, "dead")
		f.begin(name, connection.Target{Driver: "dead", Address: address})
	}
	name, _ := sidecar(maxPerHost, "dead")
	same := connection.Target{Driver: "dead", Address: address}
	if again := f.start(t.Context(), name, same); again != busyHostDelay {
		t.Errorf("attempt %d to the same host starts again after %v", maxPerHost+1, again)
	}
	f.begin(sidecar(1000, "live"))
	receive(t, f.woken)
	receive(t, f.dialled)
	f.refused <- struct{}{}
	receive(t, f.woken)
	f.begin(name, same)
}

func TestAttemptEndsWithItsCSIAddonsNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	name, target := sidecar(1, "dead")
	f.begin(name, target)
	receive(t, f.dialled)
	f.forget(name)
	f.begin(name, target)
	receive(t, f.dialled)
	moved := target
	moved.Address = "10.0.0.9:9070"
	f.begin(name, moved)
	if got := receive(t, f.dialled); got != moved.Address {
		t.Errorf("after a change of the target, %s is tried", got)
	}
	f.refused <- struct{}{}
	receive(t, f.woken)
	if got := f.take(name, target); got != nil {
		t.Errorf("the previous target has the result %+v", got)
	}
	if got := f.take(name, moved); got == nil || got.failed != 1 {
		t.Errorf("the new target has the result %+v", got)
	}
}

func TestNoAttemptStartsAfterStop(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	name, target := sidecar(1, "dead")
	f.begin(name, target)
	receive(t, f.dialled)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.stop(ctx); err != nil { // cancels the attempt and waits for its end
		t.Fatal(err)
	}
	f.begin(sidecar(2, "dead"))
	f.ended.Wait()
	if len(f.dialled) != 0 {
		t.Error("an attempt starts after the end of the controller")
	}
}
