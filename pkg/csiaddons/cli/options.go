package cli

import (
	"time"

	"github.com/spf13/pflag"
)

// options are the values of the flags.
type options struct {
	operation, endpoint, output, kubeconfig       string
	timeout                                       time.Duration
	volume, groupContent, stagingPath, driverName string
	secret, clusterID, groupID, groupName         string
	cidrs, volumeIDs                              []string
	parameters                                    map[string]string
	legacy, force                                 bool
}

// addTo registers the flags. The names are those of the tool of the CSI-Addons for Ceph; the flags
// kubeconfig, output, timeout and force are new.
func (o *options) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.operation, "operation", "", "Operation to execute.")
	set.StringVar(&o.endpoint, "endpoint", "unix:///run/csi-addons/socket",
		"Socket on which the driver serves CSI-Addons.")
	set.StringVarP(&o.output, "output", "o", tableOutput, "Format of the answer: table or json.")
	set.DurationVar(&o.timeout, "timeout", defaultTimeout, "Maximum duration of the operation.")
	set.StringVar(&o.kubeconfig, "kubeconfig", "",
		"Path of the kubeconfig to use instead of the identity of the pod.")
	set.StringVar(&o.volume, "persistentvolume", "", "Name of the PersistentVolume.")
	set.StringVar(&o.groupContent, "volumegroupreplicationcontent", "",
		"Name of the VolumeGroupReplicationContent that contains the ID of the volume group.")
	set.StringVar(&o.stagingPath, "stagingpath", "/var/lib/kubelet/plugins/kubernetes.io/csi/",
		"Folder in which kubelet stages volumes.")
	set.StringVar(&o.driverName, "drivername", "",
		"Name of the driver of the volume. The default is the driver at the endpoint.")
	set.StringVar(&o.secret, "secret", "", "Secret for the driver, as namespace/name. By default, "+
		"for a PersistentVolume, the Secret with which kubelet stages it.")
	set.StringSliceVar(&o.cidrs, "cidrs", nil, "CIDRs of the clients to fence.")
	set.StringVar(&o.clusterID, "clusterid", "", "Adds the parameter clusterID.")
	set.StringToStringVar(&o.parameters, "parameters", nil, "Parameters for the driver, as key=value.")
	set.StringSliceVar(&o.volumeIDs, "volumeids", nil, "IDs of the volumes of a volume group.")
	set.StringVar(&o.groupID, "volumegroupid", "", "ID of the volume group.")
	set.StringVar(&o.groupName, "volumegroupname", "", "Name of the volume group to create.")
	set.BoolVar(&o.legacy, "legacy", false, "Send the ID of the volume also in the deprecated field "+
		"of replication requests, which older drivers read.")
	set.BoolVar(&o.force, "force", false, "Force PromoteVolume, DemoteVolume or ResyncVolume.")
}
