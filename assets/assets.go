// Package assets contains the manifests that install the operators and CSI-Addons, for tests,
// tools and the plugin of kubectl. No operator links it: each driver plugin embeds its own bundles.
package assets

import (
	"embed"
	"io/fs"
)

//go:embed crds csi-addons drivers/*/generated/*/operator namespace
//go:embed monitoring/kubernetes snapshots drivers/*/generated/standalone/storageclass.yaml
var installations embed.FS

//go:embed drivers/*/generated/standalone/controller.yaml drivers/*/generated/standalone/node.yaml
//go:embed drivers/*/generated/standalone/csi-addons/controller.yaml
//go:embed drivers/*/generated/standalone/csi-addons/node.yaml
var workloads embed.FS

// Workloads returns drivers/<driver>/generated/standalone with the workloads of the drivers. Their
// containers have the same names in all flavours.
func Workloads() fs.FS { return workloads }

//go:embed helm/generated/openstack-csi/values.schema.json
var valuesSchema []byte

// ValuesSchema returns the JSON schema of the values of the Helm chart. Definitions maniladrivers
// and cinderdrivers are about the specs of ManilaDriver and CinderDriver.
func ValuesSchema() []byte { return valuesSchema }

// Installations returns the folders crds, csi-addons, monitoring/kubernetes, namespace, snapshots
// and drivers/<driver>/generated/<flavour>/operator. Beside these are the StorageClasses that
// operators create.
func Installations() fs.FS { return installations }
