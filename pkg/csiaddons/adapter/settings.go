package adapter

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manila"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Settings are the values of the flags.
type Settings struct {
	// Driver is Cinder or Manila.
	Driver Driver
	// Service is the service of the driver that the pod contains.
	Service Service
	// Address is the path of the socket to serve on.
	Address string
	// StagingPath is the folder below which kubelet stages volumes.
	StagingPath string
	Cloud       Cloud
	Fence       Fence
}

// Cloud is the access of the controller service of Manila to OpenStack.
type Cloud struct {
	// File is the path of clouds.yaml, and Name the entry in it.
	File, Name string
	// CAFiles are paths of PEM bundles. The first that exists is trusted.
	CAFiles []string
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
	// NodeName is the name of the Node of the pod, and NodeAddresses its addresses.
	NodeName      string
	NodeAddresses []netip.Addr
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

// Flags are the flags of the command.
type Flags struct {
	settings        Settings
	driver, service string
	nodeAddresses   []string
}

// AddTo registers the flags.
func (f *Flags) AddTo(set *pflag.FlagSet) {
	set.StringVar(&f.driver, "driver", "", "Driver to serve: cinder or manila.")
	set.StringVar(&f.service, "service", "",
		"Service of the driver in this pod: controller or node.")
	set.StringVar(&f.settings.Address, "csi-addons-address", "/run/csi-addons/socket",
		"Path of the socket to serve on.")
	set.StringVar(&f.settings.StagingPath, "staging-path",
		"/var/lib/kubelet/plugins/kubernetes.io/csi", "Folder below which kubelet stages volumes.")
	cloud, fence := &f.settings.Cloud, &f.settings.Fence
	set.StringVar(&cloud.File, "clouds-file", "/etc/openstack/clouds.yaml",
		"Path of clouds.yaml. Used by the controller service of Manila.")
	set.StringVar(&cloud.Name, "cloud", openstack.DefaultCloud,
		"Entry of clouds.yaml. Used by the controller service of Manila.")
	set.StringSliceVar(&cloud.CAFiles, "ca-file", nil, "Paths of PEM bundles with the CA of the "+
		"cloud; the first that exists is trusted. Used by the controller service of Manila.")
	set.StringVar(&fence.Cluster, "cluster-id", "", "Flag --cluster-id of the plugin, which is in "+
		"the metadata of the shares. Required by the controller service of Manila.")
	set.IntVar(&fence.MaxRules, "max-access-rules", manila.DefaultMaxRules, "Maximum number of "+
		"access rules of a share while a client is fenced. Used by the controller service of Manila.")
	set.StringVar(&fence.PluginAddress, "csi-address", "/csi/csi.sock", "Path of the socket on which "+
		"the plugin serves CSI. Used by the controller service of Manila.")
	set.StringVar(&fence.Kubeconfig, "kubeconfig", "", "Path of the kubeconfig to use instead of the "+
		"identity of the pod. Used by the controller service of Manila.")
	set.StringVar(&fence.NodeName, "node-name", "",
		"Name of the Node of the pod. Required by the node service of Manila.")
	set.StringSliceVar(&f.nodeAddresses, "node-address", nil,
		"IP addresses of the Node of the pod, one of each family. Required by the node service of "+
			"Manila.")
}

// Load returns the settings, or an error that names every problem.
func (f *Flags) Load() (*Settings, error) {
	settings := f.settings
	settings.Driver, settings.Service = Driver(f.driver), Service(f.service)
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if settings.Driver != Cinder && settings.Driver != Manila {
		fault("flag --driver is %q: it must be %s or %s", f.driver, Cinder, Manila)
	}
	if settings.Service != Controller && settings.Service != Node {
		fault("flag --service is %q: it must be %s or %s", f.service, Controller, Node)
	}
	for name, path := range map[string]*string{
		"csi-addons-address": &settings.Address, "staging-path": &settings.StagingPath,
		"csi-address": &settings.Fence.PluginAddress,
	} {
		*path = strings.TrimPrefix(*path, "unix://")
		if !filepath.IsAbs(*path) {
			fault("flag --%s is %q: it must be an absolute path", name, *path)
		}
		*path = filepath.Clean(*path)
	}
	if settings.Driver == Manila {
		faults = append(faults, f.checkManila(&settings)...)
	}
	if len(faults) > 0 {
		return nil, errors.New("settings: " + strings.Join(faults, "; "))
	}
	return &settings, nil
}

// checkManila checks the flags of the services of Manila.
func (f *Flags) checkManila(settings *Settings) (faults []string) {
	fence := &settings.Fence
	switch settings.Service {
	case Controller:
		if fence.Cluster == "" || len(fence.Cluster) > openstack.MaxMetadataValue {
			faults = append(faults, "flag --cluster-id is missing or too long")
		}
		if fence.MaxRules < 1 {
			faults = append(faults, "flag --max-access-rules must be at least 1")
		}
	case Node:
		if fence.NodeName == "" {
			faults = append(faults, "flag --node-name is missing")
		}
		for _, text := range f.nodeAddresses {
			address, err := netip.ParseAddr(text)
			if err != nil {
				faults = append(faults, fmt.Sprintf("flag --node-address contains %q: it must contain IP "+
					"addresses", text))
			}
			fence.NodeAddresses = append(fence.NodeAddresses, address.Unmap())
		}
		if len(f.nodeAddresses) == 0 {
			faults = append(faults, "flag --node-address is missing")
		}
	}
	return faults
}
