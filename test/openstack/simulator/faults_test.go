package simulator

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"gotest.tools/v3/assert"
)

func TestHangingRequestsEndWithFault(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("a")})
	service := manilaClient(ctx, t, cloud)
	fault := set(t, cloud, Fault{Mode: Hang, Service: Share, Times: 2})
	released := make(chan error, 1)
	go func() { _, err := typeNames(ctx, service); released <- err }()
	hanging, err := cloud.WaitRequest(ctx, func(r Request) bool { return r.Service == Share })
	must(t, err)
	assert.Check(t, !hanging.Done && hanging.Status == 0,
		"a request that hangs is logged as %+v", hanging)

	leaving, leave := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() { _, err := typeNames(leaving, service); left <- err }()
	_, err = cloud.WaitRequest(ctx, func(r Request) bool {
		return r.Number > hanging.Number && len(r.Faults) == 1
	})
	must(t, err)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a client that gave up got %v", err)
	}
	gone, err := cloud.WaitRequest(ctx,
		func(r Request) bool { return r.Number > hanging.Number && r.Done })
	must(t, err)
	assert.Check(t, gone.Status == 0, "a client that gave up was answered %d", gone.Status)

	if _, err := typeNames(ctx, service); err != nil {
		t.Errorf("a third request met a fault for two: %v", err)
	}
	must(t, cloud.ClearFaults(fault.ID))
	assert.Check(t, <-released, "the released request got")
}

func TestSlowResponsesArrive(t *testing.T) {
	t.Parallel()
	const delay = 150 * time.Millisecond
	cloud, ctx := run(t, Config{ShareTypes: named("a")})
	service := manilaClient(ctx, t, cloud)
	set(t, cloud, Fault{Mode: Slow, Delay: delay, PathPrefix: "/share/v2/types"})
	set(t, cloud, Fault{Mode: Status, Status: 500, Times: 1})
	start := time.Now()
	_, err := typeNames(ctx, service)
	assert.Check(t, gophercloud.ResponseCodeIs(err, http.StatusInternalServerError),
		"got %v, want the second fault's 500", err)
	if took := time.Since(start); took < delay {
		t.Errorf("answered after %s, want at least %s", took, delay)
	}
	must(t, cloud.ClearFaults())
	set(t, cloud, Fault{Mode: Slow, Delay: time.Hour})
	released := make(chan error, 1)
	go func() { _, err := typeNames(ctx, service); released <- err }()
	_, err = cloud.WaitRequest(ctx, func(r Request) bool { return len(r.Faults) == 1 && !r.Done })
	must(t, err)
	must(t, cloud.ClearFaults())
	assert.Check(t, <-released, "the released request got")
}

func TestServerErrorsNeverReadTheSame(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	service := manilaClient(ctx, t, cloud)
	set(t, cloud, Fault{Mode: Status, Status: 502})
	_, first := typeNames(ctx, service)
	_, second := typeNames(ctx, service)
	assert.Check(t, first.Error() != second.Error(), "both read %q", first)
}
