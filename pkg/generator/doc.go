// Package generator makes the operand manifests of every driver from declarative layers. cmd/asset-generator calls it
// (`make update`), the golden tests call it, and no operator links it. It knows the folder assets/ and no driver's code.
//
// For each driver.yaml, each flavour it names, and each part it has (controller, node), the order is fixed:
//
//  1. base: the files which base/layer.yaml lists, then those the driver adds
//  2. driver workload: the driver's patch of the base Deployment or DaemonSet
//  3. sidecars: their containers, bindings and metrics ports, in the order of driver.yaml
//  4. flavour: patches of and removals from what is there so far
//  5. driver patches, as written
//
// Text like ${prefix} or ${node.liveness} is settled here, from driver.yaml; text like ${NAMESPACE} is left to the
// operator. Every object is decoded strictly into the type of its kind after each layer, so that a field that the kind
// does not have is reported in the layer that brings it. Every fault is reported with its file and line: an unknown key or
// field, a second YAML document, a patch without target or without effect, a container without image, a file nobody uses,
// two outputs of one name, ports that clash or that nobody serves, an unknown placeholder, names of another driver.
package generator
