package supervisor

import (
	"fmt"
	"os"
	"strings"
)

// connect connects the node to the switch. The interface disappears with the node.
func (n *node) connect() error {
	c := n.config
	// An open file of the namespace would keep the switch after the end of the cluster.
	network := os.NewFile(SwitchFD, "switch")
	defer network.Close()
	files := []*os.File{network}
	switchPath := fmt.Sprintf("/proc/self/fd/%d", SwitchFD)
	batch := []string{
		"link set lo up",
		// The metadata service listens here. Pods reach it through the default route.
		"address add " + MetadataAddress + "/32 dev lo",
		fmt.Sprintf("link add name eth0 type veth peer name %s netns %s", c.Interface, switchPath),
		"address add " + c.Address + " dev eth0",
		"link set eth0 up",
		"route add default via " + c.Gateway,
	}
	for pods, address := range c.Routes {
		batch = append(batch, "route add "+pods+" via "+address)
	}
	if err := command([]byte(strings.Join(batch, "\n")), files, "ip", "-batch", "-"); err != nil {
		return fmt.Errorf("connecting the node: %w", err)
	}
	err := command(nil, files, "nsenter", "--net="+switchPath,
		"ip", "link", "set", c.Interface, "master", "switch", "up")
	if err != nil {
		return fmt.Errorf("connecting the switch: %w", err)
	}
	return nil
}
