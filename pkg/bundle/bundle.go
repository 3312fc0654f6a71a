// Package bundle holds the generated assets of one driver in one flavour: what each is for (role), which cluster it
// belongs to (side), the order to apply them in, and the placeholders which the operator fills. The asset generator
// saves bundles; the operator core loads and fills them, and never guesses from an object's kind what to do with it.
package bundle

import (
	"fmt"
	"io/fs"
	"path"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Role says which controller of the operator writes an asset into the cluster.
type Role string

// The roles. Every object has exactly one, hence exactly one writer.
const (
	Static             Role = "static"             // applied as it is, and kept so
	ControllerWorkload Role = "controllerWorkload" // the Deployment with the driver's controller service
	NodeWorkload       Role = "nodeWorkload"       // the DaemonSet with the driver's node service
	StorageClass       Role = "storageClass"       // obeys the administrator's storageClassState
	SnapshotClass      Role = "snapshotClass"      // applied only while its CRD exists
	ServiceMonitor     Role = "serviceMonitor"     // applied only while its CRD exists
	CSIDriver          Role = "csiDriver"          // recreated when an immutable field changes
)

// Roles returns every role, in a stable order.
func Roles() []Role {
	return []Role{Static, ControllerWorkload, NodeWorkload, StorageClass, SnapshotClass, ServiceMonitor, CSIDriver}
}

// Asset is one object, in YAML. Its Data is shared: whoever changes it copies it first.
type Asset struct {
	Name string       `json:"name"` // the file's name, unique in its bundle
	Role Role         `json:"role"`
	Side flavour.Side `json:"side"`
	Data []byte       `json:"-"`
}

// Bundle is the assets of one driver in one flavour, in the order they are to be applied. It is immutable.
type Bundle struct {
	assets []Asset
}

// New makes a bundle of assets, in the order given.
func New(assets []Asset) (*Bundle, error) {
	seen := map[string]bool{}
	for _, asset := range assets {
		if err := asset.validate(); err != nil {
			return nil, fmt.Errorf("asset %q: %w", asset.Name, err)
		}
		if seen[asset.Name] {
			return nil, fmt.Errorf("asset %q is there twice", asset.Name)
		}
		seen[asset.Name] = true
	}
	return &Bundle{assets: slices.Clone(assets)}, nil
}

func (a Asset) validate() error {
	switch {
	case a.Name == "" || a.Name != path.Base(a.Name) || a.Name == indexName:
		return fmt.Errorf("not the name of an asset's file")
	case !slices.Contains(Roles(), a.Role):
		return fmt.Errorf("unknown role %q: want one of %q", a.Role, Roles())
	case !slices.Contains(flavour.Sides(), a.Side):
		return fmt.Errorf("unknown side %q: want one of %q", a.Side, flavour.Sides())
	}
	return nil
}

// Folder is the path of a flavour's bundle inside a driver's asset folder.
func Folder(f flavour.Flavour) string {
	return path.Join(generatedFolder, string(f))
}

// Load reads the bundle of a flavour from a driver's asset folder. Files which the index does not name, and names
// without a file, are errors.
func Load(fsys fs.FS, f flavour.Flavour) (*Bundle, error) {
	folder := Folder(f)
	text, err := fs.ReadFile(fsys, path.Join(folder, indexName))
	if err != nil {
		return nil, fmt.Errorf("reading index: %w", err)
	}
	var listed index
	if err := yaml.UnmarshalStrict(text, &listed); err != nil {
		return nil, fmt.Errorf("decoding %q: %w", path.Join(folder, indexName), err)
	}
	if err := compareWithFiles(fsys, folder, listed.Assets); err != nil {
		return nil, err
	}
	for i := range listed.Assets {
		file := path.Join(folder, listed.Assets[i].Name)
		if listed.Assets[i].Data, err = fs.ReadFile(fsys, file); err != nil {
			return nil, fmt.Errorf("reading asset: %w", err)
		}
	}
	loaded, err := New(listed.Assets)
	if err != nil {
		return nil, fmt.Errorf("loading %q: %w", folder, err)
	}
	return loaded, nil
}

// Assets returns all assets in the order they are to be applied.
func (b *Bundle) Assets() []Asset {
	return slices.Clone(b.assets)
}

// Select returns the assets of one role on one side, in the order they are to be applied.
func (b *Bundle) Select(role Role, side flavour.Side) []Asset {
	var selected []Asset
	for _, asset := range b.assets {
		if asset.Role == role && asset.Side == side {
			selected = append(selected, asset)
		}
	}
	return selected
}

// Get returns the asset called name.
func (b *Bundle) Get(name string) (Asset, error) {
	for _, asset := range b.assets {
		if asset.Name == name {
			return asset, nil
		}
	}
	return Asset{}, fmt.Errorf("no asset %q in the bundle: %w", name, fs.ErrNotExist)
}

// Read returns the text of the asset called name. It has the form in which library-go asks for manifests.
func (b *Bundle) Read(name string) ([]byte, error) {
	asset, err := b.Get(name)
	return asset.Data, err
}
