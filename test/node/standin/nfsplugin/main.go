// Command nfsplugin stands in for csi-driver-nfs on a node whose kernel has no NFS client. Where
// the driver mounts a share, it binds the folder of the share that the node contains, if the server
// of the share grants access to the address of the node, as an NFS server does.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/node/standin"
)

func main() {
	os.Exit(standin.Main("nfsplugin", &nfsPlugin{}))
}
