package generator

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// driver is the content of a driver.yaml. Name is the CSI name, unless Names contains another one
// for the flavour. Prefix starts the names of objects
// in a namespace, ClusterPrefix the names of all other objects. A companion shares both with the
// driver whose folder CompanionOf names.
type driver struct {
	Name          string            `json:"name"`
	Names         []otherName       `json:"names"`
	Prefix        string            `json:"prefix"`
	ClusterPrefix string            `json:"clusterPrefix"`
	CompanionOf   string            `json:"companionOf"`
	Flavours      []flavour.Flavour `json:"flavours"`
	perPart[*driverPart]
	Operator *operatorPart `json:"operator"`
}

type otherName struct {
	Name string            `json:"name"`
	Only []flavour.Flavour `json:"only"`
}

// nameIn returns the CSI name in a flavour.
func (d driver) nameIn(f flavour.Flavour) string {
	for _, other := range d.Names {
		if slices.Contains(other.Only, f) {
			return other.Name
		}
	}
	return d.Name
}

// The parts of a driver. The assets of the controller part and of the node part are operands; those
// of the operator part install the operator.
const (
	controllerPart = "controller"
	nodePart       = "node"
	installPart    = "operator"
)

// perPart contains a value for each part of a driver.
type perPart[T any] struct {
	Controller T `json:"controller"`
	Node       T `json:"node"`
}

func (p perPart[T]) part(name string) T {
	if name == controllerPart {
		return p.Controller
	}
	return p.Node
}

// parts yields the parts of the driver with operands, in a fixed order.
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

func (d driver) hasCSIAddons() bool {
	for _, p := range d.parts() {
		if len(p.CSIAddons.Sidecars)+len(p.CSIAddons.Patches) > 0 {
			return true
		}
	}
	return false
}

// part returns a part of the driver, or an empty one if the driver does not have it.
func (d driver) part(name string) *driverPart {
	return cmp.Or(d.perPart.part(name), &driverPart{})
}

// driverPart describes the Deployment or the DaemonSet of a driver and the objects around it.
type driverPart struct {
	Name     string            `json:"name"`     // of the workload
	Selector map[string]string `json:"selector"` // of its pods; cannot change in a cluster
	Ports    ports             `json:"ports"`
	Workload string            `json:"workload"` // a strategic merge patch of the base workload
	Metrics  []metricsPort     `json:"metrics"`  // that the driver itself serves
	Sidecars []sidecarUse      `json:"sidecars"`
	// CSIAddons is what changes while the operator adds CSI-Addons to the pods.
	CSIAddons extension `json:"csiAddons"`
	changes
}

// extension are sidecars and patches that apply after all others. If APIServerTokens is true, they
// apply only while the sidecars accept tokens for the API server, as another controller sends them.
type extension struct {
	APIServerTokens bool `json:"apiServerTokens"`

	Sidecars []sidecarUse `json:"sidecars"`
	Patches  []patchEntry `json:"patches"`
}

// changes are what a driver changes in a part of the base.
type changes struct {
	Without []string     `json:"without"` // base files that this driver leaves out
	Add     []addition   `json:"add"`
	Patches []patchEntry `json:"patches"`
}

// operatorPart describes how a leading driver's operator is installed.
type operatorPart struct {
	Name      string `json:"name"`      // of the Deployment, the ServiceAccount and RBAC objects
	Component string `json:"component"` // the name in leader election; Name if not given
	Image     string `json:"image"`     // of the operator's container
	Kind      string `json:"kind"`      // of the object that configures the operator on Kubernetes
	// Namespace contains the operands of the guest side; flavour.DefaultNamespace if not given.
	Namespace   string            `json:"namespace"`
	Credentials string            `json:"credentials"` // Secret with the operator's clouds.yaml
	Images      map[string]string `json:"images"`      // of the driver, by placeholder
	changes
}

// ports allocates the ports of a part. Sidecars with metrics get the numbers from MetricsFrom and
// ExposedFrom upwards, in their order.
type ports struct {
	Liveness    int `json:"liveness"`
	Registrar   int `json:"registrar"`
	CSIAddons   int `json:"csiAddons"`   // for the controller of CSI-Addons
	MetricsFrom int `json:"metricsFrom"` // inside the pod
	ExposedFrom int `json:"exposedFrom"` // on the pod's address, behind kube-rbac-proxy
}

func (p ports) byName() map[string]int {
	byName := map[string]int{
		"liveness": p.Liveness, "registrar": p.Registrar, "csiAddons": p.CSIAddons,
	}
	maps.DeleteFunc(byName, func(_ string, number int) bool { return number == 0 })
	return byName
}

// metricsPort is a port with metrics and the kube-rbac-proxy in front of it.
type metricsPort struct {
	Port    string `json:"port"`  // the name of the exposed port
	Proxy   string `json:"proxy"` // the name of the proxy's container
	Local   int    `json:"local"`
	Exposed int    `json:"exposed"`
}

// sidecarUse is a driver's use of a sidecar.
type sidecarUse struct {
	Use  string            `json:"use"`
	With []string          `json:"with"` // options of the sidecar
	Args []string          `json:"args"` // in addition to the sidecar's own
	Only []flavour.Flavour `json:"only"`
}

// addition is a file that becomes an asset with the same name.
type addition struct {
	File string            `json:"file"`
	Side flavour.Side      `json:"side"`
	Role bundle.Role       `json:"role"` // static if not given
	Only []flavour.Flavour `json:"only"`
	// Part is the part whose container needs the asset of a sidecar. If it is not given, both do.
	Part string `json:"part"`
	// Grants is for a Role or ClusterRole of the operator. The generator adds the permissions to
	// maintain operands: to a Role for its namespace, to a ClusterRole for objects without a
	// namespace.
	Grants bool `json:"grants"`
}

// patchEntry changes one asset. Exactly one of Merge and JSON6902 is given.
type patchEntry struct {
	Target    string            `json:"target"`
	Container string            `json:"container"` // the paths of json6902 start there
	Trait     string            `json:"trait"`     // the same for each sidecar with this trait
	Merge     string            `json:"merge"`
	JSON6902  string            `json:"json6902"`
	Only      []flavour.Flavour `json:"only"`
}

func (p patchEntry) file() string {
	return p.Merge + p.JSON6902
}

// layer is the content of base/layer.yaml and of flavours/<flavour>/layer.yaml.
type layer struct {
	perPart[layerPart]
	Operator layerPart `json:"operator"`
	// Values are placeholders of a flavour. They may contain the names of the driver.
	Values map[string]string `json:"values"`
	// Selector contains what a flavour adds to the selectors of the pods of each driver.
	Selector map[string]string `json:"selector"`
	// Each is a strategic merge patch of every object but Namespaces, which operators share.
	Each string `json:"each"`
}

func (l layer) part(name string) layerPart {
	if name == installPart {
		return l.Operator
	}
	return l.perPart.part(name)
}

// layerPart is what a layer does for drivers that have the part.
type layerPart struct {
	Workload string            `json:"workload"`
	Images   map[string]string `json:"images"` // by placeholder, for the operator part
	Add      []addition        `json:"add"`
	Patches  []patchEntry      `json:"patches"`
}

// sidecar is the content of sidecars/<name>/sidecar.yaml.
type sidecar struct {
	perPart[string]                       // the files of its container in a workload, if any
	Traits          []string              `json:"traits"`
	Only            []flavour.Flavour     `json:"only"`
	Metrics         *metricsName          `json:"metrics"`
	Volumes         string                `json:"volumes"` // a list of pod volumes
	Add             []addition            `json:"add"`
	With            map[string][]addition `json:"with"`
	Each            []patchEntry          `json:"each"` // applied for every use
}

// metricsName names the exposed port and the proxy of a sidecar's metrics.
type metricsName struct {
	Port  string `json:"port"`
	Proxy string `json:"proxy"`
}
