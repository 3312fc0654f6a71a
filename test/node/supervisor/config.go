package supervisor

import "path/filepath"

// Config describes a node.
type Config struct {
	// Name is the name of the node and of its host.
	Name string
	// Dir contains the files of the node. Its folders etc, var and tmp are those of the node.
	Dir string
	// Programs is the folder that hack/node.sh filled. The node has it at ProgramsPath.
	Programs string
	// CGroup is the control group of all pods, below the root of each hierarchy.
	CGroup string
	// Volumes is the folder of the files of volumes, whose loop devices are freed in the end.
	Volumes string
	// Interface is the name of the node's port in the switch. Address is the address of the node with
	// the length of its prefix, Gateway the address of the machine in the same network.
	Interface, Address, Gateway string
	// Routes are addresses of other nodes by the networks of their pods.
	Routes map[string]string
	// Mounts are folders of the machine by their path in the node.
	Mounts map[string]string
	// Images are tar files to import, as paths in the node.
	Images []string
	// Arguments are the arguments of each service.
	Arguments map[string][]string
	// Logs is the folder of the logs of the services.
	Logs string
}

// ProgramsPath is the folder of the node's programs in the node.
const ProgramsPath = "/opt/node"

// MetadataAddress is the address of the metadata service of OpenStack, which belongs to each node.
const MetadataAddress = "169.254.169.254"

// The services of a node, in the order of their start.
const (
	Containerd = "containerd"
	Kubelet    = "kubelet"
	KubeProxy  = "kube-proxy"
)

// PIDFile returns the file with the ID of the first process of the node. It exists as long as the
// node runs.
func (c Config) PIDFile() string { return filepath.Join(c.Dir, "pid") }

// LogFile returns the log of a service.
func (c Config) LogFile(service string) string {
	return filepath.Join(c.Logs, c.Name+"-"+service+".log")
}
