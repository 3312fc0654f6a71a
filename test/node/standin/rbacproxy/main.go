// Command rbacproxy stands in for kube-rbac-proxy: it serves HTTPS and forwards the requests of
// users whom the API server authenticates by a token and authorizes for the path.
package main

import (
	"os"

	"github.com/openstack-csi/csi-operator/test/node/standin"
)

func main() {
	os.Exit(standin.Main("kube-rbac-proxy", &proxy{}))
}
