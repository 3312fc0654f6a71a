// Package operator is the core that the drivers share. A command made here runs five steps: it reads the settings, connects to
// the cluster, loads the driver's bundles, wires the driver, and runs the controllers. Its callers are the commands in cmd/.
//
// What runs always: log level, management state, configuration observer, removal of stale conditions, and the gate, which asks
// whether the cloud can serve the driver. What runs from the moment the gate opened, or was found open in the cluster, until
// the operator ends: static resources, the workloads, and the driver's own controllers.
package operator
