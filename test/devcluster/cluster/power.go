package cluster

import (
	"context"
	"fmt"
	"net/http"

	"github.com/openstack-csi/csi-operator/test/node"
)

// Node is a real node of a cluster.
type Node struct {
	*node.Node

	cluster  *Cluster
	server   string        // its ID in the cloud
	metadata *http.Server  // nil without a cloud
	cut      chan struct{} // closed when the node loses its power on purpose
}

// supervise serves the metadata of a node that has booted, and reports its failure.
func (n *Node) supervise(ctx context.Context) error {
	cut := make(chan struct{})
	n.cut = cut
	go n.watch(n.Done(), cut)
	if n.cluster.real.cloud == nil {
		return nil
	}
	listener, err := n.Listen(ctx, node.Metadata)
	if err != nil {
		return fmt.Errorf("listening for the metadata service: %w", err)
	}
	n.metadata = serve(listener, n.cluster.real.cloud.Metadata(n.server))
	return nil
}

func (n *Node) watch(ended, cut <-chan struct{}) {
	select {
	case <-cut:
	case <-n.cluster.stopped:
	case <-ended:
		select {
		case <-cut:
		default:
			n.cluster.fail(n.ExitError())
		}
	}
}

// closeMetadata ends the metadata service.
func (n *Node) closeMetadata() error {
	if n.metadata == nil {
		return nil
	}
	return n.metadata.Close()
}

// CutPower ends the node like a loss of power. The Node, the server and its attached volumes stay.
func (n *Node) CutPower() error {
	close(n.cut)
	if err := n.closeMetadata(); err != nil {
		return err
	}
	return n.Node.CutPower()
}

// PowerOn boots a node that has no power.
func (n *Node) PowerOn(ctx context.Context) error {
	if err := n.Node.PowerOn(ctx); err != nil {
		return err
	}
	return n.supervise(ctx)
}
