// Package wire is what the controller and the sidecars of CSI-Addons agree on: the generated gRPC
// code of wire.proto, the endpoint of a sidecar, the Lease of a driver, the audience of the
// controller's token, and the pin of a sidecar's certificate.
package wire
