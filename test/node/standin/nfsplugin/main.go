// Command nfsplugin stands in for csi-driver-nfs on a node whose kernel has no NFS client. Instead
// of a share it bind-mounts the folder of the share, which the node contains. Like an NFS client,
// it needs access: the server of the share must permit the address of the node.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/node/standin"
)

func main() {
	os.Exit(standin.Main("nfsplugin", &nfsPlugin{}))
}
