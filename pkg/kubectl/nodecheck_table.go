package kubectl

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/nodeprobe"
)

// Nodes are what the nodes report. Its JSON is the output of `check --nodes -o json`.
type Nodes struct {
	Nodes      []*Node  `json:"nodes"`
	Findings   []Link   `json:"findings"`
	NotVisible []string `json:"notVisible,omitempty"`
}

// Node is a node with its report.
type Node struct {
	Name string `json:"name"`
	// Server is the ID of its server in OpenStack, as its providerID says.
	Server string `json:"server,omitempty"`
	// Attached is how many volumes of Cinder are attached, and Limit how many can be, 0 if there is no
	// limit.
	Attached int `json:"attached"`
	Limit    int `json:"limit,omitempty"`
	// Result is nil if the node has not reported, and Why is why.
	Result *nodeprobe.Result `json:"result,omitempty"`
	Why    string            `json:"why,omitempty"`
}

// metadata returns the ID of the server that the drivers read on the node: the config drive counts
// more than the metadata service.
func (n *Node) metadata() string {
	if id := n.Result.ConfigDrive; id != nodeprobe.Unknown && id != "" {
		return id
	}
	return n.Result.Metadata
}

// serverID says whether the node is the server of its providerID. Without metadata, the tables of
// the machine can confirm it; on some machines they contain another ID.
func (n *Node) serverID() string {
	switch id := n.metadata(); {
	case n.Server != "" && (id == n.Server || id == "" && n.Result.DMI == n.Server):
		return "ok"
	case isOther(id, n.Server):
		return "other"
	}
	return "-"
}

// isOther returns whether two IDs of servers are known and differ.
func isOther(a, b string) bool {
	return a != "" && b != "" && a != b && a != nodeprobe.Unknown && b != nodeprobe.Unknown
}

// reached returns how many NFS servers the node reaches.
func (n *Node) reached() (count int) {
	for _, answer := range n.Result.Servers {
		if answer == nodeprobe.Reached {
			count++
		}
	}
	return count
}

// write prints the table first.
func (n *Nodes) write(out io.Writer, p palette) {
	rows := [][]string{{
		"NODE", "NFS", "SERVERS", "METADATA", "SERVER-ID", "KUBELET", "VOLUMES", "SELINUX",
	}}
	word := func(is bool, yes, no string) string {
		return map[bool]string{true: yes, false: no}[is]
	}
	for _, one := range n.Nodes {
		room := word(one.Limit > 0, fmt.Sprintf("%d/%d", one.Attached, one.Limit), "-")
		r := one.Result
		if r == nil {
			rows = append(rows, []string{one.Name, "?", "?", "?", "?", "?", room, "?"})
			continue
		}
		rows = append(rows, []string{
			one.Name, word(r.NFS, "ok", "missing"),
			fmt.Sprintf("%d/%d", one.reached(), len(r.Servers)),
			word(r.ConfigDrive != "", "drive", word(r.Metadata != "", "service", "none")),
			one.serverID(), word(r.Kubelet, "ok", "elsewhere"), room, word(r.SELinux, "enforced", "off"),
		})
	}
	writeTable(out, rows)
	for _, l := range n.Findings {
		p.link(out, l)
	}
	writeNotVisible(out, n.NotVisible)
}

// addFindings adds what is wrong, once for all nodes with the same.
func (n *nodeCheck) addFindings() {
	var all []Link
	where := map[Link][]string{}
	for _, node := range n.result.Nodes {
		for _, l := range n.wrong(node) {
			if where[l] == nil {
				all = append(all, l)
			}
			where[l] = append(where[l], node.Name)
		}
	}
	slices.SortStableFunc(all, func(a, b Link) int { return a.State.Compare(b.State) })
	for _, l := range all {
		named := l
		named.Text = "node " + diagnosis.List(where[l]) + " " + l.Text
		n.result.Findings = append(n.result.Findings, named)
	}
	if len(all) == 0 {
		n.result.Findings = append(n.result.Findings, linkf(OK, "all %d nodes can use volumes",
			len(n.result.Nodes)))
	}
}

// wrong returns what is wrong with a node. The texts contain no ID, so that those of many nodes are
// equal.
func (n *nodeCheck) wrong(node *Node) (links []Link) {
	r := node.Result
	if r == nil {
		return only(Problem, "%s", node.Why)
	}
	cinder, hasCinder := n.installed[choice.Cinder]
	_, hasManila := n.installed[choice.Manila]
	id := cmp.Or(node.Server, node.metadata())
	for _, f := range []struct {
		is bool
		Link
	}{
		{!r.NFS && hasManila, linkf(Problem, "has no client of NFS in its kernel, so it mounts no share").
			then("Install the kernel module nfsv4")},
		{hasCinder && r.ConfigDrive+r.Metadata == "", linkf(Problem, "has no config drive, and gets no "+
			"answer of the metadata service, with which the node plugin of Cinder starts").
			then("Check the route to 169.254.169.254")},
		{isOther(r.ConfigDrive, r.Metadata), linkf(Problem, "has the config drive of another server")},
		{isOther(node.metadata(), node.Server), linkf(Problem, "has a providerID of another server than "+
			"its metadata, so volumes are attached to the other one").then("Delete the Node, and " +
			"restart its kubelet")},
		{n.servers != nil && id != "" && !n.servers[id], linkf(Problem, "is a server that Nova does not "+
			"list").then("Check whether %s is the login to the project of this cluster", n.clouds)},
		{!r.Kubelet, linkf(Problem, "has another folder of the kubelet than the drivers use").
			then("Compare --root-dir of the kubelet with %s",
				n.guest.setting("kubeletDir", cmp.Or(cinder.name, n.installed[choice.Manila].name)))},
		{node.Limit > 0 && node.Attached >= node.Limit, linkf(Warning, "has no room for another volume "+
			"of Cinder, so a pod with one does not start there")},
	} {
		if f.is {
			links = append(links, f.Link)
		}
	}
	for _, address := range slices.Sorted(maps.Keys(r.Servers)) {
		if answer := r.Servers[address]; answer != nodeprobe.Reached {
			links = append(links, linkf(Problem, "gets no connection to NFS server %s, TCP 2049: %s",
				address, answer).then("Check network, routes and security groups between them"))
		}
	}
	return links
}
