// Package api contains the spec of ManilaDrivers and CinderDrivers, with which an administrator
// configures the operators on Kubernetes. hack/choices writes their CustomResourceDefinitions and
// the reference from the types, their tags and their comments: see choice.Config. Its callers are
// pkg/plugin and hack/choices.
package api

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// RevisionAnnotation is an annotation of the CustomResourceDefinitions. Its value, Revision,
// increases with each change of a schema.
const (
	RevisionAnnotation = "csi.openstack.org/revision"
	Revision           = 4
)

// Operator contains what each operator obeys.
type Operator struct {
	// The ID that marks the volumes of this cluster in OpenStack. The default is the UID of the
	// namespace `kube-system`. The operator records in `status.clusterID` what it uses; a later change
	// has no effect until `replacesClusterID` confirms it.
	ClusterID string `json:"clusterID" rule:"labelText"`
	// The recorded ID that another one replaces. OpenStack keeps the recorded ID in the volumes that
	// exist.
	ReplacesClusterID string `json:"replacesClusterID" rule:"labelText"`
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
}

// Spec is the spec of both kinds.
type Spec struct {
	Operator      `json:",inline"`
	choice.Config `json:",inline"`
	Driver        `json:",inline"`
}

// Driver contains what else than the choices configures a driver.
type Driver struct {
	// Options of the section `[BlockStorage]` in the cloud.conf of the driver.
	BlockStorage BlockStorage `json:"blockStorage" kind:"CinderConfig"`
	// Options of the section `[Metadata]` in the cloud.conf of the driver.
	Metadata Metadata `json:"metadata" kind:"CinderConfig"`
}

// BlockStorage contains all options that the driver has in the section, with their names there.
type BlockStorage struct {
	// The maximum number of volumes on a node. The default is 256.
	NodeVolumeAttachLimit int64 `json:"nodeVolumeAttachLimit" gcfg:"node-volume-attach-limit" range:"1-256"` //nolint:lll // a tag has one line
	// Whether the driver rescans the device of a volume after it has grown.
	RescanOnResize bool `json:"rescanOnResize" gcfg:"rescan-on-resize" default:"false"`
	// Whether volumes have no topology, so that servers can use the volumes of every zone.
	IgnoreVolumeAZ bool `json:"ignoreVolumeAZ" gcfg:"ignore-volume-az" default:"false"`
	// Whether the driver uses a Cinder that supports only old microversions.
	IgnoreVolumeMicroversion bool `json:"ignoreVolumeMicroversion" gcfg:"ignore-volume-microversion" default:"false"` //nolint:lll // a tag has one line
}

// Metadata contains the option of the section that the driver uses.
type Metadata struct {
	// Where the driver finds out, in this order, on which server it runs. By default it uses both,
	// first the configuration drive.
	SearchOrder []string `json:"searchOrder" enum:"configDrive,metadataService" rule:"set"`
}

// CloudConf returns the options of the driver as its cloud.conf, "" without any.
func (d Driver) CloudConf() string {
	text := ""
	for field, value := range reflect.ValueOf(d.BlockStorage).Fields() {
		if !value.IsZero() {
			text += fmt.Sprintf("%s = %v\n", field.Tag.Get("gcfg"), value)
		}
	}
	if text != "" {
		text = "[BlockStorage]\n" + text
	}
	if order := d.Metadata.SearchOrder; len(order) > 0 {
		text += "[Metadata]\nsearch-order = \"" + strings.Join(order, ",") + "\"\n"
	}
	return text
}
