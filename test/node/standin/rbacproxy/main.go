// Command rbacproxy stands in for kube-rbac-proxy: it serves HTTPS, and forwards a request if the
// API server authenticates the user by a token and authorizes the user for the path.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/node/standin"
)

func main() {
	os.Exit(standin.Main("kube-rbac-proxy", &proxy{}))
}
