// Package manila serves the CSI-Addons operations for shares of Manila. Package adapter registers
// its services.
//
// The operation is NetworkFence: it revokes the access of clients to all shares of the cluster, and
// restores it. These are the shares that the plugin has created for the cluster, and those of its
// PersistentVolumes. Manila has only rules that allow access. A rule for a network that contains a
// fenced client is replaced by rules for the rest of the network. The metadata of a share contain
// the rules that were revoked, so the operation continues after a restart.
package manila

import (
	"cmp"
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
)

const (
	protocol     = "NFS"
	pollInterval = time.Second
	// waitTimeout is how long a call continues when only waiting shares are left: a fence of other
	// clients may wait for its end.
	waitTimeout = 10 * time.Second
	// answerTime is the time before the deadline of a call at which the answer says how many shares
	// have not changed. At the deadline, the caller would not read it any more.
	answerTime = 5 * time.Second
	// sharedCluster is the cluster ID in the manifests for Kubernetes without OpenShift. All clusters
	// have it whose administrators did not choose another.
	sharedCluster = "kubernetes"
)

// DefaultMaxRules is enough to fence 20 addresses of a /16 network, or three of IPv6 in a /64, if
// the rules of a share allow all clients. If a backend refuses so many rules, it does so before any
// access is revoked.
const DefaultMaxRules = 256

// Config configures a Controller.
type Config struct {
	// Cluster is the ID of the cluster in the metadata of its shares.
	Cluster string
	// MaxRules is the maximum number of access rules of a share while a fence is established.
	MaxRules int
	// Connect logs in if necessary, and returns the requests of one operation.
	Connect func(context.Context) (Shares, error)
	// Volumes lists the PersistentVolumes of the driver. Its errors are gRPC statuses.
	Volumes func(context.Context) ([]Volume, error)
	// PluginVersion returns the vendor version of the plugin in this pod.
	PluginVersion func(context.Context) (string, error)
}

// Controller serves fence.FenceController in the pods of the controller service. See NewController.
type Controller struct {
	fence.UnimplementedFenceControllerServer

	config Config
	pace   pace
	// slot admits one operation: two would read and write the same records.
	slot *semaphore.Weighted
}

// NewController returns the controller service. It sends nothing.
func NewController(config Config) *Controller {
	return &Controller{
		config: config, pace: pace{poll: pollInterval, patience: waitTimeout},
		slot: semaphore.NewWeighted(1),
	}
}

// FenceClusterNetwork revokes the access of clients to all shares of the cluster. If one share
// cannot express it, no share changes. It returns an error if one share may still admit a client.
func (c *Controller) FenceClusterNetwork(
	ctx context.Context, request *fence.FenceClusterNetworkRequest,
) (*fence.FenceClusterNetworkResponse, error) {
	networks, err := parse(request)
	if err == nil {
		err = c.checkPlugin(ctx)
	}
	if err == nil {
		err = c.change(ctx, operation{limit: c.config.MaxRules, networks: networks})
	}
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("Revoked the access of clients", "cidrs", join(networks))
	return &fence.FenceClusterNetworkResponse{}, nil
}

// UnfenceClusterNetwork ends the fence of networks on all shares of the cluster. It restores the
// access of their clients, except of those in other fenced networks.
func (c *Controller) UnfenceClusterNetwork(
	ctx context.Context, request *fence.UnfenceClusterNetworkRequest,
) (*fence.UnfenceClusterNetworkResponse, error) {
	networks, err := parse(request)
	if err == nil {
		err = c.change(ctx, operation{networks: networks})
	}
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("Ended the fence of clients", "cidrs", join(networks))
	return &fence.UnfenceClusterNetworkResponse{}, nil
}

// ListClusterFence returns the networks that are fenced on at least one share.
func (c *Controller) ListClusterFence(ctx context.Context, _ *fence.ListClusterFenceRequest,
) (*fence.ListClusterFenceResponse, error) {
	cloud, err := c.config.Connect(ctx)
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
			return nil, status.Errorf(codes.FailedPrecondition, "share %s: %v", share.ID, err)
		}
		networks = append(networks, r.fenced...)
	}
	response := &fence.ListClusterFenceResponse{}
	for _, network := range sorted(networks) {
		response.Cidrs = append(response.Cidrs, &fence.CIDR{Cidr: network.String()})
	}
	return response, nil
}

// request is a request to fence, or to end a fence.
type request interface {
	GetParameters() map[string]string
	GetCidrs() []*fence.CIDR
}

// parse checks a request, and returns its networks in their order. An error names invalid ones.
func parse(request request) ([]netip.Prefix, error) {
	if err := v1alpha1.CheckManilaParameters(request.GetParameters()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	given := request.GetCidrs()
	if len(given) == 0 || len(given) > wire.MaxNetworks {
		return nil, status.Errorf(codes.InvalidArgument,
			"the request contains %d CIDRs: it must contain between 1 and %d", len(given),
			wire.MaxNetworks)
	}
	networks := make([]netip.Prefix, 0, len(given))
	var invalid []string
	var problem error
	for _, cidr := range given {
		network, err := wire.ParseNetwork(cidr.GetCidr())
		if err != nil {
			invalid, problem = append(invalid, cidr.GetCidr()), cmp.Or(problem, err)
		}
		networks = append(networks, network)
	}
	if problem != nil {
		return nil, refuse(status.New(codes.InvalidArgument, problem.Error()), invalid)
	}
	return networks, nil
}

// find returns the shares of an operation: those of the cluster, and for a fence those of its
// PersistentVolumes. If there are no shares of the cluster whose fence could end, those of its
// PersistentVolumes show that the credentials are for the right project.
func (c *Controller) find(ctx context.Context, cloud Shares, o operation,
) ([]shares.Share, error) {
	found, err := c.list(ctx, cloud)
	if err != nil {
		return nil, err
	}
	if o.fences() || len(found) == 0 {
		used, err := c.used(ctx, cloud, found)
		if err != nil && o.fences() {
			return nil, err
		}
		found = append(found, used...)
	}
	return found, c.check(found, o)
}

// list returns the shares with the ID of the cluster, and those that a fence of the cluster has
// marked and that do not have the ID.
func (c *Controller) list(ctx context.Context, cloud Shares) ([]shares.Share, error) {
	if c.config.Cluster == sharedCluster {
		return nil, status.Errorf(codes.FailedPrecondition, "the cluster ID is %q, which other clusters "+
			"in the project may have too: their shares would be fenced. Set a unique spec.clusterID "+
			"of the ManilaDriver", sharedCluster)
	}
	found, err := cloud.List(ctx, shares.ClusterKey, c.config.Cluster)
	if err != nil {
		return nil, cloudError(ctx, err)
	}
	marked, err := cloud.List(ctx, shares.FenceKey, c.config.Cluster)
	if err != nil {
		return nil, cloudError(ctx, err)
	}
	for _, share := range marked {
		if share.Metadata[shares.ClusterKey] != c.config.Cluster {
			found = append(found, share)
		}
	}
	return found, nil
}

// check returns an error if no share can change, or if a fence would not be complete.
//
// Without shares nothing was fenced, or all shares were deleted, or the credentials are those of
// another project. Manila answers 404 for the shares of another project, so it cannot tell which.
func (c *Controller) check(found []shares.Share, o operation) error {
	others := 0
	for _, share := range found {
		if !isNFS(share) && share.Status != deletingStatus {
			others++
		}
	}
	switch {
	case len(found) == 0 && o.fences():
		return status.Errorf(codes.FailedPrecondition, "no share in the project has the cluster ID %q "+
			"in its metadata %s, and no PersistentVolume has a share, so nothing is fenced. Check the flag "+
			"--cluster-id", c.config.Cluster, shares.ClusterKey)
	case len(found) == 0:
		return status.Errorf(codes.FailedPrecondition, "no share in the project has the cluster ID %q "+
			"in its metadata %s or %s, so no access is restored. Check the flag --cluster-id and the "+
			"project in the credentials. If all shares were deleted, delete the NetworkFence",
			c.config.Cluster, shares.ClusterKey, shares.FenceKey)
	case others > 0 && o.fences():
		return status.Errorf(codes.FailedPrecondition, "%d of %d shares of the cluster do not use %s, "+
			"and the access to them cannot be revoked by the address of a client. No share is changed",
			others, len(found), protocol)
	}
	return nil
}

func isNFS(share shares.Share) bool { return strings.EqualFold(share.Protocol, protocol) }

// cloudError returns a gRPC status for an error of OpenStack. The caller retries all of them. The
// end of ctx may be the cause of any error.
func cloudError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return status.Error(status.FromContextError(ctx.Err()).Code(), err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}
