// Package api contains the spec of ManilaDrivers and CinderDrivers, with which an administrator
// configures the operators on Kubernetes. hack/choices writes their CustomResourceDefinitions and
// the reference from the types, their tags and their comments: see choice.Config. Its callers are
// pkg/plugin and hack/choices.
package api

import "github.com/openstack-csi/csi-operator/pkg/choice"

// Spec is the spec of both kinds.
type Spec struct {
	// Whether the operator maintains the driver. While it is `Unmanaged`, the operator does not
	// install, upgrade, repair or configure it.
	ManagementState string `json:"managementState" enum:"Managed,Unmanaged" default:"Managed"`
	// The log level of the driver and its sidecars.
	LogLevel string `json:"logLevel" enum:"Normal,Debug,Trace" default:"Normal"`
	// The log level of the operator.
	OperatorLogLevel string `json:"operatorLogLevel" enum:"Normal,Debug,Trace" default:"Normal"`
	// Whether the operator maintains its StorageClasses, by default `Managed`. `Unmanaged` leaves them
	// as they are, `Removed` deletes them.
	StorageClassState string `json:"storageClassState" enum:"Managed,Unmanaged,Removed"`

	choice.Config `json:",inline"`

	// Whether volumes follow pods into the availability zones of their nodes. `Auto` means `Always` if
	// each zone of servers is a zone of volumes, too.
	Topology string `json:"topology" kind:"CinderConfig" enum:"Auto,Always,Never" default:"Auto"`
	// Options of the section `[BlockStorage]` in the cloud.conf of the driver.
	BlockStorage BlockStorage `json:"blockStorage" kind:"CinderConfig"`
	// Options of the section `[Metadata]` in the cloud.conf of the driver.
	Metadata Metadata `json:"metadata" kind:"CinderConfig"`
}

// BlockStorage contains all options that the driver has in the section.
type BlockStorage struct {
	// The maximum number of volumes on a node. The default is 256.
	NodeVolumeAttachLimit int64 `json:"nodeVolumeAttachLimit" range:"1-256"`
	// Whether the driver rescans the device of a volume after it has grown.
	RescanOnResize bool `json:"rescanOnResize" default:"false"`
	// Whether volumes have no topology, so that servers can use the volumes of every zone.
	IgnoreVolumeAZ bool `json:"ignoreVolumeAZ" default:"false"`
	// Whether the driver uses a Cinder that supports only old microversions.
	IgnoreVolumeMicroversion bool `json:"ignoreVolumeMicroversion" default:"false"`
}

// Metadata contains the option of the section that the driver uses.
type Metadata struct {
	// Where the driver finds out, in this order, on which server it runs. By default it uses both,
	// first the configuration drive.
	SearchOrder []string `json:"searchOrder" enum:"configDrive,metadataService" rule:"set"`
}
