package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/nodeprobe"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
)

// nodeCheck probes the nodes with a pod on each. They have no login: this process compares what
// they report with Kubernetes and OpenStack.
type nodeCheck struct {
	*session
	*check

	installed map[choice.Kind]driver
	// plugin is the DaemonSet of a driver, whose ServiceAccount and nodes the pods have.
	plugin *appsv1.DaemonSet
	// addresses are NFS servers in OpenStack, servers the IDs in Nova's list; nil if it is not known.
	addresses []string
	servers   map[string]bool
	// waiting are the nodes that have not reported, by name.
	waiting map[string]*Node
	result  Nodes
}

// checkNodes prints a table of the nodes.
func (c *check) checkNodes(ctx context.Context, s *session) error {
	n := &nodeCheck{
		session: s, check: c, installed: map[choice.Kind]driver{}, waiting: map[string]*Node{},
	}
	if err := n.deleteEarlier(ctx); err != nil || c.clean {
		return err
	}
	image := ""
	for _, d := range s.guest.drivers() {
		set := find(ctx, s.guest, d.namespace, d.nodes[0], &appsv1.DaemonSet{})
		operator := find(ctx, s.guest, d.operatorIn, d.operator, &appsv1.Deployment{})
		if set != nil {
			n.installed[d.kind], n.plugin = d, set
		}
		if set != nil && operator != nil {
			image = operator.Spec.Template.Spec.Containers[0].Image
		}
	}
	c.image = cmp.Or(c.image, image)
	switch {
	case s.failed() != nil:
		return s.failed()
	case n.plugin == nil:
		return errors.New("no DaemonSet of a driver is visible. The nodes are checked after the " +
			"installation, with its ServiceAccount")
	case c.image == "":
		return usage("no Deployment of an operator is visible. Name the image of one with --image")
	}
	if err := n.askOpenStack(ctx); err != nil {
		return err
	}
	if n.addNodes(ctx); s.failed() != nil || len(n.result.Nodes) == 0 {
		return cmp.Or(s.failed(), errors.New("no node on which the drivers run is visible"))
	}
	if err := n.probe(ctx); err != nil {
		return err
	}
	n.result.NotVisible = s.notVisible()
	n.addFindings()
	return s.show("Nodes", &n.result, causeOf(n.result.Findings) != nil)
}

// addNodes adds the nodes on which the driver runs, with the room for volumes of Cinder. Without a
// kubelet that answers, they are not probed.
func (n *nodeCheck) addNodes(ctx context.Context) {
	cinder := n.installed[choice.Cinder].name
	attached, limits := n.attachedBy(ctx, cinder), map[string]int{}
	visit(ctx, n.guest, &storagev1.CSINodeList{}, func(c *storagev1.CSINode) {
		limits[c.Name] = limitOf(*c, cinder)
	})
	chosen := labels.SelectorFromSet(n.plugin.Spec.Template.Spec.NodeSelector)
	visit(ctx, n.guest, &corev1.NodeList{}, func(node *corev1.Node) {
		if !chosen.Matches(labels.Set(node.Labels)) {
			return
		}
		one := &Node{Name: node.Name, Attached: attached[node.Name], Limit: limits[node.Name]}
		if _, id, found := strings.Cut(node.Spec.ProviderID, "openstack://"); found {
			one.Server = id[strings.LastIndex(id, "/")+1:]
		}
		if one.Why, _ = n.unready(node); one.Why == "" {
			one.Why, n.waiting[node.Name] = "has started no pod of the check", one
		}
		n.result.Nodes = append(n.result.Nodes, one)
	})
}

// askOpenStack reads the servers of Nova, and the addresses of NFS servers, if a flag says so.
func (n *nodeCheck) askOpenStack(ctx context.Context) error {
	if n.clouds == "" {
		return nil
	}
	login, err := n.login(ctx)
	if err != nil || login.State != OK {
		return cmp.Or(err, errors.New(login.Text))
	}
	ids, err := n.client.Servers(ctx)
	if err != nil {
		n.result.Findings = only(NotVisible, "whether Nova knows the servers of the nodes: %v", err)
	} else {
		n.servers = map[string]bool{}
	}
	for _, id := range ids {
		n.servers[id] = true
	}
	if d, found := n.installed[choice.Manila]; found {
		if err := n.addAddresses(ctx, n.clusterID(ctx, d)); err != nil {
			n.result.Findings = append(n.result.Findings, linkf(NotVisible, "all NFS servers: %v", err))
		}
	}
	return nil
}

// addAddresses adds the addresses of one share of each share network. Each share costs a request.
func (n *nodeCheck) addAddresses(ctx context.Context, clusterID string) error {
	requests, err := shares.New(ctx, n.client)
	if err != nil {
		return err
	}
	all, err := requests.List(ctx, shares.ClusterKey, clusterID)
	asked, done := 0, map[string]bool{}
	for _, share := range all {
		if done[share.Network] || share.Status != "available" || asked == nodeprobe.MaxServers {
			continue
		}
		asked++
		paths, failed := requests.Exports(ctx, share.ID)
		err = cmp.Or(err, failed)
		for _, path := range paths {
			host, _, _ := strings.Cut(path, ":/")
			host = strings.Trim(host, "[]")
			if nodeprobe.IsAddress(host) && len(n.addresses) < nodeprobe.MaxServers {
				n.addresses, done[share.Network] = append(n.addresses, host), true
			}
		}
	}
	slices.Sort(n.addresses)
	return err
}

// deleteEarlier deletes what a check has left that was killed.
func (n *nodeCheck) deleteEarlier(ctx context.Context) error {
	kind := appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	var err error
	visit(ctx, n.guest, listOf(kind), func(o *object) {
		o.SetGroupVersionKind(kind)
		fmt.Fprintf(n.Err, "Deleting DaemonSet %s/%s of an earlier check\n", o.Namespace, o.Name)
		err = cmp.Or(err, n.delete(ctx, o))
	}, client.HasLabels{checkLabel})
	return cmp.Or(err, n.failed())
}
