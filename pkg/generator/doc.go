// Package generator makes the operand manifests of every driver from the layers in assets/.
// cmd/asset-generator (`make update`) and the golden tests call it; no operator links it.
//
// For each driver.yaml, each flavour in it and each part (controller, node) the steps are:
//
//  1. base: the files listed in base/layer.yaml, then the files that the driver adds
//  2. workload: the driver's patch of the base Deployment or DaemonSet
//  3. sidecars: their containers, bindings and metrics ports, in the order of driver.yaml
//  4. flavour: patches and removals of the flavour's layer
//  5. patches of the driver
//
// At the end it makes the Helm chart, which contains what kubectl installs.
//
// The generator replaces placeholders like ${prefix} or ${node.liveness} with values from
// driver.yaml and leaves placeholders like ${NAMESPACE} to the operator. After each layer it
// decodes every object strictly into the type of its kind, so that an unknown field is reported in
// the layer that adds it. It reports errors with file and line, all of one step at once: an unknown
// key or field, a second YAML document, a patch without target or without effect, an unused file,
// two outputs with one name, a missing sidecar, ports that clash, an unknown placeholder, names of
// another driver. What a review sees in the output, or what Kubernetes refuses, it does not check.
package generator
