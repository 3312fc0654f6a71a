// Package sanity runs csi-sanity, the tests of Kubernetes' CSI project, against the real programs
// of the drivers. `make test-csi-sanity` runs it as root, in namespaces of its own.
//
// The operators run in a devcluster with simulated nodes, so the API server contains the pods of
// the drivers. The tests run the containers of these pods that contain a driver as processes: with
// the arguments, environment and files of the pod, and with the simulator as their OpenStack.
package sanity
