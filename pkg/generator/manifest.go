package generator

import (
	"iter"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// driver is the content of a driver.yaml.
type driver struct {
	Name          string            `yaml:"name"`          // of the CSI driver
	Prefix        string            `yaml:"prefix"`        // of the names of objects in a namespace
	ClusterPrefix string            `yaml:"clusterPrefix"` // of the names of objects outside namespaces
	CompanionOf   string            `yaml:"companionOf"`   // the folder of the driver whose prefixes this one shares
	Flavours      []flavour.Flavour `yaml:"flavours"`
	Controller    *driverPart       `yaml:"controller"`
	Node          *driverPart       `yaml:"node"`
}

const (
	controllerPart = "controller"
	nodePart       = "node"
)

// parts yields the parts the driver has, in the order they are worked on.
func (d driver) parts() iter.Seq2[string, *driverPart] {
	return func(yield func(string, *driverPart) bool) {
		if d.Controller != nil && !yield(controllerPart, d.Controller) {
			return
		}
		if d.Node != nil {
			yield(nodePart, d.Node)
		}
	}
}

// driverPart describes the Deployment or the DaemonSet of a driver, and what goes with it.
type driverPart struct {
	Name     string            `yaml:"name"`     // of the workload
	Selector map[string]string `yaml:"selector"` // of its pods; cannot change in a cluster
	Ports    ports             `yaml:"ports"`
	Workload string            `yaml:"workload"` // a strategic merge patch of the base workload
	Metrics  []metricsPort     `yaml:"metrics"`  // which the driver itself serves
	Sidecars []sidecarUse      `yaml:"sidecars"`
	Without  []string          `yaml:"without"` // base files which this driver does not want
	Add      []addition        `yaml:"add"`
	Patches  []patchEntry      `yaml:"patches"`
}

// ports is the allocation of a part's ports. Sidecars with metrics get the numbers from MetricsFrom and ExposedFrom
// upwards, in their order.
type ports struct {
	Liveness    int `yaml:"liveness"`
	Registrar   int `yaml:"registrar"`
	MetricsFrom int `yaml:"metricsFrom"` // inside the pod
	ExposedFrom int `yaml:"exposedFrom"` // on the pod's address, behind kube-rbac-proxy
}

// metricsPort is a port with metrics and the kube-rbac-proxy in front of it.
type metricsPort struct {
	Port    string `yaml:"port"`  // the name of the exposed port
	Proxy   string `yaml:"proxy"` // the name of the proxy's container
	Local   int    `yaml:"local"`
	Exposed int    `yaml:"exposed"`
}

// sidecarUse is a driver's use of a sidecar.
type sidecarUse struct {
	Use  string            `yaml:"use"`
	With []string          `yaml:"with"` // options of the sidecar
	Args []string          `yaml:"args"` // in addition to the sidecar's own
	Only []flavour.Flavour `yaml:"only"`
}

// addition is a file which becomes an asset of the same name.
type addition struct {
	File string            `yaml:"file"`
	Side flavour.Side      `yaml:"side"`
	Role bundle.Role       `yaml:"role"` // static if not given
	Only []flavour.Flavour `yaml:"only"`
}

// patchEntry changes one asset. Exactly one of Merge and JSON6902 is given.
type patchEntry struct {
	Target    string            `yaml:"target"`
	Container string            `yaml:"container"` // makes the paths of a JSON 6902 patch relative to this container
	Trait     string            `yaml:"trait"`     // the same for each sidecar with this trait; only in layers
	Merge     string            `yaml:"merge"`
	JSON6902  string            `yaml:"json6902"`
	Only      []flavour.Flavour `yaml:"only"`
}

func (p patchEntry) file() string {
	return p.Merge + p.JSON6902
}

// layer is the content of base/layer.yaml and of flavours/<flavour>/layer.yaml.
type layer struct {
	Controller layerPart `yaml:"controller"`
	Node       layerPart `yaml:"node"`
}

func (l layer) part(name string) layerPart {
	if name == controllerPart {
		return l.Controller
	}
	return l.Node
}

// layerPart is what a layer does for drivers which have the part.
type layerPart struct {
	Workload string       `yaml:"workload"`
	Add      []addition   `yaml:"add"`
	Patches  []patchEntry `yaml:"patches"`
	Drop     []string     `yaml:"drop"`
}

// sidecar is the content of sidecars/<name>/sidecar.yaml.
type sidecar struct {
	Controller string                `yaml:"controller"` // its container in a controller workload; "" if it is none there
	Node       string                `yaml:"node"`       // the same for node workloads
	Traits     []string              `yaml:"traits"`
	Metrics    *metricsName          `yaml:"metrics"`
	Volumes    string                `yaml:"volumes"` // a list of pod volumes
	Add        []addition            `yaml:"add"`
	With       map[string][]addition `yaml:"with"`
	Each       []patchEntry          `yaml:"each"` // applied for every use
}

func (s sidecar) container(part string) string {
	if part == controllerPart {
		return s.Controller
	}
	return s.Node
}

// metricsName names what a sidecar's metrics port makes.
type metricsName struct {
	Port  string `yaml:"port"`
	Proxy string `yaml:"proxy"`
}
