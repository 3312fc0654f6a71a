// Package sanity runs csi-sanity, the tests of Kubernetes' CSI project, on a real node, with the
// sockets of the drivers that the operators deployed. `make test-csi-sanity` runs it as root.
package sanity
