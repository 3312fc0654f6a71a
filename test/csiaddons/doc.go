// Package csiaddons tests CSI-Addons on real Kubernetes API servers. `make test-csi-addons` runs
// it. The variable K8S_BIN_DIR is the folder of the Kubernetes programs.
//
// Tests run in parallel and share clusters: a test waits until one is free, and resets it. The flag
// -clusters sets their number; each starts when a test first needs it.
package csiaddons
