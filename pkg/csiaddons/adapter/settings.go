package adapter

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manila"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
)

// Settings are the values of the flags. AddTo reads them from a command line.
type Settings struct {
	// Driver is Cinder or Manila.
	Driver Driver
	// Name is the name of the CSI driver, which its CSIDriver has.
	Name string
	// Service is the service of the driver that the pod contains.
	Service Service
	// Address is the path of the socket to serve on.
	Address string
	// StagingPath is the folder below which kubelet stages volumes.
	StagingPath string
	// LoginFolder contains a file for each key of the Secret that Manila's plugin reads. The
	// controller service of Manila uses the same login.
	LoginFolder string
	Fence       Fence
}

// Fence configures the fence of Manila.
type Fence struct {
	// Cluster is the cluster ID that the plugin writes into the metadata of shares.
	Cluster string
	// MaxRules is the maximum number of access rules of a share.
	MaxRules int
	// Kubeconfig is the path of a kubeconfig; "" means the identity of the pod.
	Kubeconfig string
	// PluginAddress is the path of the socket of the plugin.
	PluginAddress string
}

// Driver is a driver by the value of the flag --driver.
type Driver string

// The drivers.
const (
	Cinder Driver = "cinder"
	Manila Driver = "manila"
)

// Service is the service of CSI that a pod of a driver contains.
type Service string

// The services.
const (
	Controller Service = "controller"
	Node       Service = "node"
)

// AddTo registers the flags.
func (s *Settings) AddTo(set *pflag.FlagSet) {
	set.StringVar((*string)(&s.Driver), "driver", "", "Driver to serve: cinder or manila.")
	set.StringVar(&s.Name, "driver-name", "",
		"Name of the CSI driver. Default: DRIVER.csi.openstack.org.")
	set.StringVar((*string)(&s.Service), "service", "",
		"Service of the driver in this pod: controller or node.")
	set.StringVar(&s.Address, "csi-addons-address", "/run/csi-addons/socket",
		"Path of the socket to serve on.")
	set.StringVar(&s.StagingPath, "staging-path", "/var/lib/kubelet/plugins/kubernetes.io/csi",
		"Folder below which kubelet stages volumes.")
	set.StringVar(&s.LoginFolder, "login-folder", "/etc/openstack-login", "Folder with a file for "+
		"each key of the Secret that the plugin reads. Used by the controller service of Manila.")
	fence := &s.Fence
	set.StringVar(&fence.Cluster, "cluster-id", "", "Flag --cluster-id of the plugin, which is in "+
		"the metadata of the shares. Required by the controller service of Manila.")
	set.IntVar(&fence.MaxRules, "max-access-rules", manila.DefaultMaxRules, "Maximum number of "+
		"access rules of a share while a client is fenced. Used by the controller service of Manila.")
	set.StringVar(&fence.PluginAddress, "csi-address", "/csi/csi.sock", "Path of the socket on which "+
		"the plugin serves CSI. Used by the controller service of Manila.")
	set.StringVar(&fence.Kubeconfig, "kubeconfig", "", "Path of the kubeconfig to use instead of the "+
		"identity of the pod. Used by the controller service of Manila.")
}

// Check completes the settings. It returns an error that names every problem.
func (s *Settings) Check() error {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if s.Driver != Cinder && s.Driver != Manila {
		fault("flag --driver is %q: it must be %s or %s", s.Driver, Cinder, Manila)
	}
	if s.Service != Controller && s.Service != Node {
		fault("flag --service is %q: it must be %s or %s", s.Service, Controller, Node)
	}
	s.Name = cmp.Or(s.Name, string(s.Driver)+".csi.openstack.org")
	for name, path := range map[string]*string{
		"csi-addons-address": &s.Address, "staging-path": &s.StagingPath,
		"csi-address": &s.Fence.PluginAddress,
	} {
		*path = strings.TrimPrefix(*path, "unix://")
		if !filepath.IsAbs(*path) {
			fault("flag --%s is %q: it must be an absolute path", name, *path)
		}
		*path = filepath.Clean(*path)
	}
	if s.Driver == Manila && s.Service == Controller {
		if s.Fence.Cluster == "" || len(s.Fence.Cluster) > shares.MaxMetadataValue {
			fault("flag --cluster-id is missing or too long")
		}
		if s.Fence.MaxRules < 1 {
			fault("flag --max-access-rules must be at least 1")
		}
	}
	if s.Driver == Manila && s.Service == Node {
		fault("flag --service is %q: on nodes of Manila the sidecar needs no adapter", s.Service)
	}
	if len(faults) > 0 {
		return errors.New("settings: " + strings.Join(faults, "; "))
	}
	return nil
}
