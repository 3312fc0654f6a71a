package generator

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/patch"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// The files of CSI-Addons, which are not layers.
const (
	csiAddonsFolder         = "csi-addons"
	csiAddonsServiceVersion = csiAddonsFolder + "/clusterserviceversion.yaml"
	csiAddonsPackage        = "csi-addons-openstack"
	csiAddonsGenerated      = csiAddonsFolder + "/generated"
)

// kustomization contains the fields that the assets use. A patch contains JSON 6902 operations.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Components []string `json:"components"`
	// Labels become metadata of each object.
	Labels []struct {
		Pairs map[string]string `json:"pairs"`
	} `json:"labels"`
	Patches []struct {
		Target struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"target"`
		Patch string `json:"patch"`
	} `json:"patches"`
}

// csiAddonsBundles returns the files of the OLM bundles of CSI-Addons, by their paths below
// csiAddonsGenerated, or none if the assets folder does not contain CSI-Addons. It reads the
// kustomizations with which kubectl installs CSI-Addons.
func csiAddonsBundles(fsys fs.FS) (map[string][]byte, error) {
	if _, err := fs.Stat(fsys, csiAddonsServiceVersion); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	files, kubernetes := map[string][]byte{}, map[string][]byte{}
	err := errors.Join(
		csiAddonsBundle(fsys, flavour.Standalone, "../../../install/cinder-manila", files),
		csiAddonsBundle(fsys, flavour.Kubernetes, "../../../../install/kubernetes", kubernetes))
	addTo(files, string(flavour.Kubernetes), kubernetes)
	return files, err
}

// csiAddonsBundle adds the files of one bundle. install is the path from its prerequisites to the
// kustomization.
func csiAddonsBundle(
	fsys fs.FS, f flavour.Flavour, install string, files map[string][]byte,
) error {
	i, err := kustomized(fsys, path.Join(csiAddonsFolder, "install", path.Base(install)), f,
		csiAddonsServiceVersion)
	if err != nil {
		return err
	}
	i.part.Name = csiAddonsPackage
	if err := i.completeServiceVersion(); err != nil {
		return err
	}
	return i.addOLM(files, install)
}

// kustomized returns the objects of a folder with a kustomization, which also applies to those in
// the other files.
func kustomized(
	fsys fs.FS, folder string, f flavour.Flavour, others ...string,
) (*installation, error) {
	kinds, err := newKinds(fsys)
	if err != nil {
		return nil, err
	}
	top := path.Join(folder, "kustomization.yaml")
	i := &installation{
		part: &operatorPart{},
		assembly: &assembly{
			layers: &layers{fsys: fsys, kinds: kinds, used: map[string]bool{}}, flavour: f,
			driver: manifest[driver]{document: &document{&position.Document{File: top}}},
			assets: map[string]*asset{},
		},
	}
	for _, file := range others {
		if err := i.addObjects(file); err != nil {
			return nil, err
		}
	}
	return i, i.addKustomization(folder)
}

// addKustomization adds the objects of a folder with a kustomization, and applies its patches.
func (i *installation) addKustomization(folder string) error {
	k, err := readManifest[kustomization](i.layers, path.Join(folder, "kustomization.yaml"))
	if err != nil {
		return err
	}
	for _, resource := range append(k.content.Resources, k.content.Components...) {
		file := path.Join(folder, resource)
		add := i.addObjects
		if path.Ext(file) == "" {
			add = i.addKustomization
		}
		if err := add(file); err != nil {
			return err
		}
	}
	for n, p := range k.content.Patches {
		from := k.source("patches").index(n)
		target := i.find(p.Target.Kind, p.Target.Name)
		if target == nil {
			return from.errorf("there is no %s %s", p.Target.Kind, p.Target.Name)
		}
		patched, err := patch.JSON6902(target.Data, []byte(p.Patch), "")
		if err != nil {
			return from.errorf("patching %s %s: %w", p.Target.Kind, p.Target.Name, err)
		}
		if err := i.change(target, k.document, patched); err != nil {
			return err
		}
	}
	for _, labels := range k.content.Labels {
		for _, asset := range i.assets {
			if err := i.setMetadata(asset, k.document, "labels", labels.Pairs); err != nil {
				return err
			}
		}
	}
	return nil
}

// setMetadata changes the entries of a map in the metadata of an object; nil removes one.
func (l *layers) setMetadata(target *asset, layer *document, field string, entries any) error {
	text, err := yaml.Marshal(object{"metadata": object{field: entries}})
	if err == nil {
		text, err = patch.Merge(target.Data, text)
	}
	if err != nil {
		return layer.Errorf("", "changing the %s of %s: %w", field, target.Name, err)
	}
	return l.change(target, layer, text)
}

func (i *installation) addObjects(file string) error {
	text, err := fs.ReadFile(i.fsys, file)
	if err != nil {
		return fmt.Errorf("reading manifest: %w", err)
	}
	separator := regexp.MustCompile(`(?m)^---\n`)
	lines := 0
	for n, part := range separator.Split(string(text), -1) {
		// Empty lines keep the line numbers in errors.
		layer, err := parse(file, []byte(strings.Repeat("\n", lines)+part))
		if err != nil {
			return err
		}
		lines += strings.Count(part, "\n") + 1
		data, err := patch.Canonical(layer.Text)
		if err != nil {
			return layer.Errorf("", "%w", err)
		}
		name := strings.ReplaceAll(strings.TrimPrefix(file, csiAddonsFolder+"/"), "/", "_")
		if n > 0 {
			name = fmt.Sprintf("%s-%d.yaml", strings.TrimSuffix(name, ".yaml"), n)
		}
		i.assets[name] = &asset{
			Asset: bundle.Asset{Name: name, Side: flavour.Guest}, at: layer.At(""),
		}
		if err := i.change(i.assets[name], layer, data); err != nil {
			return err
		}
	}
	return nil
}

// find returns the object of a kind with a name, or with any if the name is empty, or nil.
func (i *installation) find(kind, name string) *asset {
	for _, asset := range i.assets {
		if asset.kind() == kind && (name == "" || asset.object.GetName() == name) {
			return asset
		}
	}
	return nil
}
