// Package bundle contains the generated assets of one driver in one flavour: the role and the side
// of each, the order to apply them in, and the placeholders that the operator fills. The asset
// generator saves bundles; the operator core loads and fills them.
package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Role determines which controller of the operator applies an asset.
type Role string

// The roles. Each object has exactly one, and so exactly one writer.
const (
	Static             Role = "static"             // applied as it is
	ControllerWorkload Role = "controllerWorkload" // the driver's Deployment
	NodeWorkload       Role = "nodeWorkload"       // the driver's DaemonSet
	StorageClass       Role = "storageClass"       // subject to storageClassState
	SnapshotClass      Role = "snapshotClass"      // applied only while its CRD exists
	ServiceMonitor     Role = "serviceMonitor"     // applied only while its CRD exists
	OperatorMonitor    Role = "operatorMonitor"    // and while the operator's metrics Service exists
	CSIDriver          Role = "csiDriver"          // recreated if an immutable field changes
)

// Asset is one object. Bundles share its Data, so callers copy it before they change it.
type Asset struct {
	Name string       `json:"name"` // of the file, unique in the bundle
	Role Role         `json:"role"`
	Side flavour.Side `json:"side"`
	// APIServerTokens is true for an asset of CSI-Addons that the driver needs only while its sidecars
	// accept tokens for the API server.
	APIServerTokens bool `json:"apiServerTokens,omitempty"`

	Data []byte `json:"-"`
}

// Bundle contains the assets of one driver in one flavour, in the order to apply them; immutable.
type Bundle struct {
	assets []Asset
}

// New returns a bundle of assets in the given order.
func New(assets []Asset) *Bundle { return &Bundle{assets: slices.Clone(assets)} }

// Folder is the path of a flavour's bundle inside a driver's asset folder.
func Folder(f flavour.Flavour) string {
	return path.Join(generatedFolder, string(f))
}

// CSIAddonsCRD is the name of the CustomResourceDefinition that says that a cluster has CSI-Addons.
const CSIAddonsCRD = "csiaddonsnodes.csiaddons.openshift.io"

// CSIAddonsFolder is the path of the bundle with the assets that are new or differ with CSI-Addons.
// Its workloads are patches, see Patched.
func CSIAddonsFolder(f flavour.Flavour) string {
	return path.Join(Folder(f), "csi-addons")
}

// Load reads the bundle of a flavour from a driver's asset folder.
func Load(fsys fs.FS, f flavour.Flavour) (*Bundle, error) {
	return load(fsys, Folder(f))
}

// LoadCSIAddons reads the bundle with the assets that are new or differ with CSI-Addons. It returns
// an empty bundle for a driver that does not support CSI-Addons.
func LoadCSIAddons(fsys fs.FS, f flavour.Flavour) (*Bundle, error) {
	folder := CSIAddonsFolder(f)
	if _, err := fs.Stat(fsys, folder); errors.Is(err, fs.ErrNotExist) {
		return &Bundle{}, nil
	}
	return load(fsys, folder)
}

func load(fsys fs.FS, folder string) (*Bundle, error) {
	text, err := fs.ReadFile(fsys, path.Join(folder, indexName))
	if err != nil {
		return nil, fmt.Errorf("reading index: %w", err)
	}
	var listed index
	if err := yaml.UnmarshalStrict(text, &listed); err != nil {
		return nil, fmt.Errorf("decoding %q: %w", path.Join(folder, indexName), err)
	}
	for i := range listed.Assets {
		file := path.Join(folder, listed.Assets[i].Name)
		if listed.Assets[i].Data, err = fs.ReadFile(fsys, file); err != nil {
			return nil, fmt.Errorf("reading asset: %w", err)
		}
	}
	return New(listed.Assets), nil
}

// Patched returns a workload after a strategic merge patch, such as those in the bundle for
// CSI-Addons. Both may contain placeholders. kind is a value of the type of the workload, such as
// appsv1.Deployment{}.
func Patched(workload, patch []byte, kind any) ([]byte, error) {
	var patched []byte
	object, err := yaml.YAMLToJSON(workload)
	if err == nil {
		patch, err = yaml.YAMLToJSON(patch)
	}
	if err == nil {
		patched, err = strategicpatch.StrategicMergePatch(object, patch, kind)
	}
	if err != nil {
		return nil, fmt.Errorf("patching the workload: %w", err)
	}
	return patched, nil
}

// Assets returns all assets in the order to apply them.
func (b *Bundle) Assets() []Asset {
	return slices.Clone(b.assets)
}

// Find returns the asset with a name, and whether there is one.
func (b *Bundle) Find(name string) (Asset, bool) {
	i := slices.IndexFunc(b.assets, func(a Asset) bool { return a.Name == name })
	if i < 0 {
		return Asset{}, false
	}
	return b.assets[i], true
}

// Select returns the assets with a role on a side, in the order to apply them.
func (b *Bundle) Select(role Role, side flavour.Side) []Asset {
	var selected []Asset
	for _, asset := range b.assets {
		if asset.Role == role && asset.Side == side {
			selected = append(selected, asset)
		}
	}
	return selected
}

const (
	generatedFolder = "generated"
	indexName       = "index.yaml"
	indexHeader     = "# Generated; do not edit, run `make update`. " +
		"The order is the order to apply the assets in.\n"
)

type index struct {
	Assets []Asset `json:"assets"`
}

// Files returns the index and the assets by the names of their files.
func (b *Bundle) Files() (map[string][]byte, error) {
	text, err := yaml.Marshal(index{Assets: b.assets})
	if err != nil {
		return nil, fmt.Errorf("encoding index: %w", err)
	}
	files := map[string][]byte{indexName: append([]byte(indexHeader), text...)}
	for _, asset := range b.assets {
		files[asset.Name] = asset.Data
	}
	return files, nil
}
