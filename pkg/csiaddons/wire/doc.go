// Package wire is the protocol between the controller and the sidecars of CSI-Addons: the generated
// gRPC code of wire.proto, the endpoint of a sidecar, the Lease of a driver, the networks of a fence,
// the audience of the token of the controller, and the pin of the certificate of a sidecar. Both
// programs use it, and the adapter parses networks with it.
package wire
