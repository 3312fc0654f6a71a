package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/openstack-csi/csi-operator/test/node"
	"github.com/openstack-csi/csi-operator/test/node/images"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	// exportsPort is the port of NFS. There the stand-in of the NFS driver asks for access.
	exportsPort = "2049"
	// exportsPath is the folder of all shares in a node, for that stand-in.
	exportsPath = "/var/lib/kubelet/plugins/openstack-manila-nfs/exports"
	// headerTimeout limits how long a client sends the header of a request.
	headerTimeout = time.Minute
	// defaultZone is the availability zone of a default installation of OpenStack.
	defaultZone = "nova"
)

// Nodes describes real nodes. With a count of zero there are none, and kwok simulates nodes.
type Nodes struct {
	Count int
	// Zones are the availability zones of the nodes, in their order. More nodes are in defaultZone.
	Zones []string
	// Grace is the time until a node without power is not ready, instead of five minutes.
	Grace time.Duration
	// Programs is the folder that hack/node.sh filled, Supervisor the program devnode.
	Programs, Supervisor string
	// Images are tar files of images. Sandbox is the name of the image of pause.
	Images  []string
	Sandbox string
}

// zone returns the availability zone of a node. Nodes count from 1.
func (n Nodes) zone(number int) string {
	if number > len(n.Zones) {
		return defaultZone
	}
	return n.Zones[number-1]
}

func (n Nodes) zones() []simulator.Zone {
	var zones []simulator.Zone
	for number := 1; number <= n.Count; number++ {
		zone := simulator.Zone{Name: n.zone(number)}
		if !slices.Contains(zones, zone) {
			zones = append(zones, zone)
		}
	}
	return zones
}

// realNodes are running nodes with their network.
type realNodes struct {
	network *node.Network
	cloud   *simulator.Simulator // nil without a cloud
	nodes   []*Node
	exports *http.Server // nil without a cloud
}

// RunsOperators returns true if the operators are pods of the cluster.
func (c *Cluster) RunsOperators() bool { return c.opts.Nodes.Count > 0 }

// Nodes returns the real nodes.
func (c *Cluster) Nodes() []*Node { return c.real.nodes }

func (c *Cluster) createNetwork(context.Context) error {
	var err error
	c.real.network, err = node.NewNetwork(c.opts.Nodes.Count)
	return err
}

// address returns the address of this machine for pods. It is empty without real nodes.
func (c *Cluster) address() string {
	if c.real.network == nil {
		return ""
	}
	return c.real.network.Machine()
}

// Registry is the address at which real nodes expect a registry on this machine, without TLS.
func (c *Cluster) Registry() string { return c.real.network.Registry() }

// startNodes starts real nodes, each as a server of the cloud.
func (c *Cluster) startNodes(ctx context.Context) error {
	if c.real.cloud != nil {
		address := net.JoinHostPort(c.address(), exportsPort)
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("listening for NFS clients: %w", err)
		}
		c.real.exports = serve(listener, c.real.cloud.Exports())
	}
	for number := 1; number <= c.opts.Nodes.Count; number++ {
		if err := c.startNode(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) startNode(ctx context.Context, number int) error {
	server := simulator.Server{
		ID: string(uuid.NewUUID()), Name: fmt.Sprintf("devcluster-node-%d", number),
		Zone: c.opts.Nodes.zone(number),
	}
	kubelet, err := c.management.Issue("system:node:"+server.Name, user.NodesGroup)
	if err != nil {
		return err
	}
	proxy, err := c.management.Issue(user.KubeProxy)
	if err != nil {
		return err
	}
	started, err := node.Start(ctx, c.real.network, node.Options{
		Number: number, Name: server.Name, ProviderID: "openstack:///" + server.ID,
		Dir: c.opts.Dir.Node(server.Name), Logs: c.opts.Dir.Logs(),
		Programs: c.opts.Nodes.Programs, Supervisor: c.opts.Nodes.Supervisor,
		Volumes: c.opts.Dir.OpenStackState(), Kubeconfig: kubelet, ProxyKubeconfig: proxy,
		ClientCA: c.management.KubeletCA(), Images: c.opts.Nodes.Images,
		Sandbox: c.opts.Nodes.Sandbox,
		Mounts:  map[string]string{exportsPath: filepath.Join(c.opts.Dir.OpenStackState(), "shares")},
	})
	if err != nil {
		return err
	}
	n := &Node{Node: started, cluster: c, server: server.ID}
	c.real.nodes = append(c.real.nodes, n)
	if c.real.cloud != nil {
		server.Machine = started
		c.real.cloud.AddServer(server)
	}
	return n.supervise(ctx)
}

// serve serves until the caller closes the result.
func serve(listener net.Listener, handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	go func() { _ = server.Serve(listener) }() // it returns when the server is closed
	return server
}

// stop stops all nodes, and then removes their network.
func (r *realNodes) stop() error {
	var errs []error
	for _, n := range r.nodes {
		errs = append(errs, n.Stop(), n.closeMetadata())
	}
	if r.exports != nil {
		errs = append(errs, r.exports.Close())
	}
	if r.network != nil {
		errs = append(errs, r.network.Close())
	}
	return errors.Join(errs...)
}

// labelNodes adds the labels that a kubelet may not add to its own node: the roles, which the
// installer adds, and the place, which the controller manager of the cloud adds.
func (c *Cluster) labelNodes(ctx context.Context) error {
	for i, n := range c.real.nodes {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"labels": map[string]string{
				"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": "",
				"node-role.kubernetes.io/worker": "",
				corev1.LabelTopologyZone:         c.opts.Nodes.zone(i + 1),
				corev1.LabelTopologyRegion:       simulator.DefaultRegion,
			},
		}})
		if err != nil {
			return err
		}
		_, err = c.management.Client().CoreV1().Nodes().
			Patch(ctx, n.Name(), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("labelling node %s: %w", n.Name(), err)
		}
	}
	return nil
}

// Folders contain what real nodes need.
type Folders struct {
	// Source is the source tree, which contains the images that `make node-images` built.
	Source string
	// Programs is the folder that `make build` filled, Nodes the folder that `make node` filled.
	Programs, Nodes string
}

// RealNodes returns a number of real nodes. It fails if something is missing to run them.
func RealNodes(count int, folders Folders) (Nodes, error) {
	if err := node.Check(folders.Nodes); err != nil {
		return Nodes{}, err
	}
	nodes := Nodes{
		Count: count, Programs: folders.Nodes,
		Supervisor: filepath.Join(folders.Programs, "devnode"),
	}
	return nodes, nodes.addImages(folders.Source)
}

// addImages adds the images that `make node-images` built in the source tree.
func (n *Nodes) addImages(source string) error {
	all, err := images.List(source)
	if err != nil {
		return fmt.Errorf("listing the images of a node: %w", err)
	}
	for _, image := range all {
		if _, err := os.Stat(image.File); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("image %s is missing: `make node-images` builds %s",
				image.Name, image.File)
		}
		n.Images = append(n.Images, image.File)
		if strings.Contains(image.Name, "/pause:") {
			n.Sandbox = image.Name
		}
	}
	return nil
}
