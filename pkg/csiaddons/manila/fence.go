// Package manila serves the CSI-Addons operations for shares of Manila. Package adapter registers
// its services.
//
// The operation is NetworkFence: it revokes the access of clients to all shares of the cluster, and
// restores it. Manila has only rules that allow access. A rule for a network that contains a fenced
// client is replaced by rules for the rest of the network. The metadata of a share contain the
// rules that were revoked, so the operation continues after a restart.
package manila

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	// clusterKey is the key in the metadata of a share with which manila-csi-plugin names the cluster
	// (its flag --cluster-id).
	clusterKey = "manila.csi.openstack.org/cluster"
	protocol   = "NFS"
	// maxNetworks limits the networks of one request.
	maxNetworks = 1024
	// concurrentShares is how many shares change at the same time.
	concurrentShares = 8
	pollInterval     = time.Second
)

// Config configures a Controller.
type Config struct {
	// Cluster is the ID of the cluster in the metadata of its shares.
	Cluster string
	// MaxRules is the maximum number of access rules of a share while a fence is established.
	MaxRules int
}

// Controller serves fence.FenceController in the pods of the controller service. NewController
// creates it.
type Controller struct {
	fence.UnimplementedFenceControllerServer

	config   Config
	connect  func(context.Context) (shares, error)
	interval time.Duration
	// busy contains one element while an operation runs: two would read and write the same records.
	busy chan struct{}
}

// NewController returns the controller service. It sends nothing.
func NewController(config Config, client *openstack.Client) *Controller {
	return &Controller{
		config: config, interval: pollInterval, busy: make(chan struct{}, 1),
		connect: func(ctx context.Context) (shares, error) { return client.Shares(ctx) },
	}
}

// FenceClusterNetwork revokes the access of clients to all shares of the cluster. If the rules of
// one share cannot express it, no share changes.
func (c *Controller) FenceClusterNetwork(
	ctx context.Context, request *fence.FenceClusterNetworkRequest,
) (*fence.FenceClusterNetworkResponse, error) {
	networks, err := parseCIDRs(request.GetCidrs())
	if err != nil {
		return nil, err
	}
	err = c.change(ctx, c.config.MaxRules, func(r record) ([]netip.Prefix, error) {
		return sorted(slices.Concat(r.fenced, networks)), nil
	})
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("Revoked the access of clients", "cidrs", join(networks))
	return &fence.FenceClusterNetworkResponse{}, nil
}

// UnfenceClusterNetwork restores the access of clients to all shares of the cluster.
func (c *Controller) UnfenceClusterNetwork(
	ctx context.Context, request *fence.UnfenceClusterNetworkRequest,
) (*fence.UnfenceClusterNetworkResponse, error) {
	networks, err := parseCIDRs(request.GetCidrs())
	if err != nil {
		return nil, err
	}
	err = c.change(ctx, 0, func(r record) ([]netip.Prefix, error) {
		rest := slices.DeleteFunc(slices.Clone(r.fenced),
			func(fenced netip.Prefix) bool { return slices.Contains(networks, fenced) })
		for _, fenced := range rest {
			if overlapsAny(fenced, networks) {
				return nil, status.Errorf(codes.FailedPrecondition,
					"%s is fenced, and contains clients of the request. Unfence %s", fenced, fenced)
			}
		}
		return rest, nil
	})
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("Restored the access of clients", "cidrs", join(networks))
	return &fence.UnfenceClusterNetworkResponse{}, nil
}

// ListClusterFence returns the networks that are fenced on at least one share.
func (c *Controller) ListClusterFence(ctx context.Context, _ *fence.ListClusterFenceRequest,
) (*fence.ListClusterFenceResponse, error) {
	cloud, err := c.connect(ctx)
	if err != nil {
		return nil, cloudError(ctx, err)
	}
	found, err := c.list(ctx, cloud)
	if err != nil {
		return nil, err
	}
	var networks []netip.Prefix
	for _, share := range found {
		r, err := readRecord(share)
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		networks = append(networks, r.fenced...)
	}
	response := &fence.ListClusterFenceResponse{}
	for _, network := range sorted(networks) {
		response.Cidrs = append(response.Cidrs, &fence.CIDR{Cidr: network.String()})
	}
	return response, nil
}

func parseCIDRs(given []*fence.CIDR) ([]netip.Prefix, error) {
	if len(given) == 0 || len(given) > maxNetworks {
		return nil, status.Errorf(codes.InvalidArgument,
			"the request contains %d CIDRs: it must contain between 1 and %d", len(given), maxNetworks)
	}
	networks := make([]netip.Prefix, 0, len(given))
	for _, cidr := range given {
		network, err := parseNetwork(cidr.GetCidr())
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		networks = append(networks, network)
	}
	return sorted(networks), nil
}

// change plans the changes of all shares, and performs them if there is a plan for each share.
// target returns the networks to fence, from the record of a share.
func (c *Controller) change(
	ctx context.Context, limit int, target func(record) ([]netip.Prefix, error),
) error {
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	cloud, err := c.connect(ctx)
	if err != nil {
		return cloudError(ctx, err)
	}
	found, err := c.list(ctx, cloud)
	if err != nil {
		return err
	}
	w := worker{shares: cloud, interval: c.interval}
	var mu sync.Mutex
	var plans []plan
	err = each(ctx, found, func(ctx context.Context, share openstack.Share) error {
		p, err := w.plan(ctx, share, limit, target)
		mu.Lock()
		defer mu.Unlock()
		plans = append(plans, p)
		return err
	})
	if err != nil {
		return err
	}
	return w.applyAll(ctx, slices.DeleteFunc(plans, func(p plan) bool { return !p.changes() }))
}

// applyAll performs all plans, also after an error: a share that cannot change must not keep the
// others from changing.
func (w worker) applyAll(ctx context.Context, plans []plan) error {
	var mu sync.Mutex
	var first error
	failed := 0
	_ = each(ctx, plans, func(ctx context.Context, p plan) error {
		if err := w.apply(ctx, p); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed++
			first = cmp.Or(first, err)
		}
		return nil
	})
	if failed > 1 {
		first = fmt.Errorf("%d of %d shares did not change: %w", failed, len(plans), first)
	}
	return cloudError(ctx, first)
}

// each calls work for all items, for some at the same time. After the first error, which it
// returns, it cancels the others.
func each[T any](ctx context.Context, items []T, work func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentShares)
	for _, item := range items {
		group.Go(func() error { return work(ctx, item) })
	}
	return group.Wait()
}

// list returns the shares of the cluster that clients mount by NFS.
func (c *Controller) list(ctx context.Context, cloud shares) ([]openstack.Share, error) {
	found, err := cloud.List(ctx, clusterKey, c.config.Cluster)
	if err != nil {
		return nil, cloudError(ctx, err)
	}
	return slices.DeleteFunc(found, func(share openstack.Share) bool {
		return !strings.EqualFold(share.Protocol, protocol) || share.Status == deletingStatus
	}), nil
}

// deletingStatus is the status of a share that Manila deletes. Nobody can change its access rules.
const deletingStatus = "deleting"

// plan reads the access rules of a share and returns how they change. The plan is empty if the
// share does not exist any more.
func (w worker) plan(ctx context.Context, share openstack.Share, limit int,
	target func(record) ([]netip.Prefix, error),
) (plan, error) {
	old, err := readRecord(share)
	if err != nil {
		return plan{}, status.Error(codes.FailedPrecondition, err.Error())
	}
	networks, err := target(old)
	if err != nil {
		return plan{}, err
	}
	rules, err := w.settled(ctx, share.ID)
	switch {
	case openstack.ReasonOf(err) == openstack.NotFound:
		return plan{}, nil
	case err != nil:
		return plan{}, cloudError(ctx, fmt.Errorf("share %s: %w", share.ID, err))
	}
	p, err := newPlan(share, rules, networks, limit)
	if err != nil {
		return plan{}, status.Error(codes.FailedPrecondition, err.Error())
	}
	return p, nil
}

// cloudError returns a gRPC status for an error of OpenStack. The caller retries all of them. The
// end of ctx may be the cause of any error.
func cloudError(ctx context.Context, err error) error {
	code := codes.Unavailable
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		code = status.FromContextError(ctx.Err()).Code()
	case openstack.ReasonOf(err) == openstack.Refused:
		code = codes.FailedPrecondition
	}
	return status.Error(code, err.Error())
}
