package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// verifyInterval is the time between the end of a verification and the next, and leaderInterval
	// that after one without a connection to the leader of a driver.
	verifyInterval, leaderInterval = 10 * time.Minute, time.Minute
	// ReasonRepaired is the reason of the event that a verification has revoked access again.
	ReasonRepaired = "FenceRepaired"
)

// Start verifies the fences of each driver until ctx is done: somebody may have given clients
// access again, which the controller does not see.
func (r *Reconciler) Start(ctx context.Context) error {
	var drivers sync.WaitGroup
	for driver := range r.Drivers {
		drivers.Go(func() { r.verifyAlways(ctx, driver) })
	}
	drivers.Wait()
	return nil
}

func (r *Reconciler) verifyAlways(ctx context.Context, driver string) {
	for {
		after := verifyInterval
		err := r.verify(ctx, driver)
		switch {
		case errors.Is(err, errBusy): // changes of objects come first, also between two calls
			after = turnInterval
		case err != nil && ctx.Err() == nil:
			log.FromContext(ctx).Error(err, "Failed to verify NetworkFences", "driver", driver)
			after = leaderInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(after):
		}
	}
}

// verify fences the clients of all NetworkFences of a driver again, in one call for each class and
// maxCIDRs clients.
func (r *Reconciler) verify(ctx context.Context, driver string) error {
	if _, busy := r.calling.LoadOrStore(driver, true); busy {
		return errBusy
	}
	defer r.calling.Delete(driver)
	groups, err := r.groups(ctx, driver)
	if err != nil || len(groups) == 0 {
		return err
	}
	leader, err := r.leader(ctx, driver)
	if err != nil {
		return err
	}
	var unwritten error
	for _, one := range groups {
		cidrs := slices.Compact(slices.Sorted(slices.Values(one.request.GetCidrs())))
		for one.request.Cidrs = range slices.Chunk(cidrs, maxCIDRs) {
			var trailer metadata.MD
			err := r.send(ctx, leader, v1alpha1.Fenced, one.request, grpc.Trailer(&trailer))
			switch changed := trailer.Get(wire.ChangedSharesTrailer); {
			case ctx.Err() != nil || errors.Is(err, errBusy):
				return err
			case err != nil:
				unwritten = errors.Join(unwritten, r.lose(ctx, one.fences, err))
			case len(changed) > 0:
				r.repaired(driver, one.fences, changed[0])
			}
		}
	}
	return unwritten
}

// group are NetworkFences of one class.
type group struct {
	fences  []*v1alpha1.NetworkFence
	request *wire.NetworkFenceRequest
}

// groups reads the NetworkFences of a driver whose clients are fenced from the API server.
func (r *Reconciler) groups(ctx context.Context, driver string) (map[string]*group, error) {
	var all v1alpha1.NetworkFenceList
	if err := r.Live.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing NetworkFences: %w", err)
	}
	groups := map[string]*group{}
	for i := range all.Items {
		f := &all.Items[i]
		fenced := meta.IsStatusConditionTrue(f.Status.Conditions, ConditionFenced)
		if !fenced || outdated(f) || f.DeletionTimestamp != nil {
			continue
		}
		of, call, err := request(ctx, r.Client, f)
		if err != nil || of != driver { // a class that was deleted ends no fence
			continue
		}
		key := fmt.Sprint(call.GetParameters(), call.GetSecretNamespace(), "/", call.GetSecretName())
		if groups[key] == nil {
			groups[key] = &group{request: call}
		} else {
			groups[key].request.Cidrs = append(groups[key].request.Cidrs, call.GetCidrs()...)
		}
		groups[key].fences = append(groups[key].fences, f)
	}
	return groups, nil
}

// lose writes that the clients of NetworkFences may have access. This event repeats their calls.
func (r *Reconciler) lose(ctx context.Context, fences []*v1alpha1.NetworkFence, failure error,
) error {
	var errs []error
	for _, f := range fences {
		errs = append(errs, client.IgnoreNotFound(r.write(ctx, f, describe(failure))))
	}
	return errors.Join(errs...)
}

// repaired reports that a driver has revoked access since the last verification. The number of
// shares comes from the driver.
func (r *Reconciler) repaired(driver string, fences []*v1alpha1.NetworkFence, shares string) {
	count, err := strconv.ParseUint(shares, 10, 32)
	if err != nil || count == 0 {
		return
	}
	r.Metrics.Repaired(driver, count)
	for _, f := range fences {
		r.Events.Eventf(f, nil, corev1.EventTypeWarning, ReasonRepaired, actionFence,
			"The driver has revoked the access of fenced clients to %d shares: somebody had changed "+
				"their access rules, or the shares are new", count)
	}
}
