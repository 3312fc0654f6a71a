package generator

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

const proxySidecar = "kube-rbac-proxy"

// manifest is a layer.yaml, sidecar.yaml or driver.yaml.
type manifest[T any] struct {
	*document
	content T
}

// layers contains every manifest of the assets folder.
type layers struct {
	fsys     fs.FS
	kinds    runtime.Decoder
	base     manifest[layer]
	flavours map[flavour.Flavour]manifest[layer]
	sidecars map[string]manifest[sidecar] // by folder
	drivers  map[string]manifest[driver]  // by folder
	used     map[string]bool              // the manifests, and the files that they name
}

// readLayers decodes all manifests. A file that no manifest names is an error.
func readLayers(fsys fs.FS) (*layers, error) {
	kinds, err := newKinds(fsys)
	if err != nil {
		return nil, err
	}
	l := &layers{fsys: fsys, kinds: kinds, used: map[string]bool{}}
	l.flavours = map[flavour.Flavour]manifest[layer]{}
	var errs []error
	l.base, err = readManifest[layer](l, "base/layer.yaml")
	errs = append(errs, err)
	for _, f := range flavour.All() {
		l.flavours[f], err = readManifest[layer](l, path.Join("flavours", string(f), "layer.yaml"))
		errs = append(errs, err)
	}
	l.sidecars, err = readManifests[sidecar](l, "sidecars/*/sidecar.yaml")
	errs = append(errs, err)
	l.drivers, err = readManifests[driver](l, "drivers/*/driver.yaml")
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return l, errors.Join(l.checkNames(), l.checkUnused())
}

func readManifest[T any](l *layers, file string) (manifest[T], error) {
	var m manifest[T]
	text, err := fs.ReadFile(l.fsys, file)
	if err != nil {
		return m, fmt.Errorf("reading manifest: %w", err)
	}
	if m.document, err = parse(file, text); err != nil {
		return m, err
	}
	l.used[file] = true
	return m, errors.Join(m.decodeStrictly(&m.content), l.visit(m.document, "", &m.Root))
}

// visit marks the files that a manifest names as used, and reports unknown flavours and parts: they
// would never apply.
func (l *layers) visit(d *document, key string, node *yaml.Node) error {
	var errs []error
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			key = child.Value
			continue
		}
		errs = append(errs, l.visit(d, key, child))
	}
	if node.Kind != yaml.ScalarNode {
		return errors.Join(errs...)
	}
	l.used[d.beside(node.Value)] = true
	var flavours []string
	for _, f := range flavour.All() {
		flavours = append(flavours, string(f))
	}
	supported := map[string][]string{
		"flavours": flavours, "only": flavours, "part": {controllerPart, nodePart},
	}[key]
	if supported != nil && !slices.Contains(supported, node.Value) {
		at := position.Position{File: d.File, Line: node.Line}
		return position.ErrorAt(at, "%s: %q is not one of %q", key, node.Value, supported)
	}
	return nil
}

func readManifests[T any](l *layers, pattern string) (map[string]manifest[T], error) {
	files, err := fs.Glob(l.fsys, pattern)
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", pattern, err)
	}
	manifests := map[string]manifest[T]{}
	var errs []error
	for _, file := range files {
		m, err := readManifest[T](l, file)
		manifests[path.Base(path.Dir(file))] = m
		errs = append(errs, err)
	}
	return manifests, errors.Join(errs...)
}

func (l *layers) checkUnused() error {
	var errs []error
	walk := func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipOthers(file)
		}
		if !l.used[file] && path.Ext(file) != ".go" && path.Ext(file) != ".md" {
			at := position.Position{File: file, Line: 1}
			errs = append(errs, position.ErrorAt(at, "no manifest uses this file"))
		}
		return nil
	}
	if err := fs.WalkDir(l.fsys, ".", walk); err != nil {
		errs = append(errs, fmt.Errorf("walking layers: %w", err))
	}
	return errors.Join(errs...)
}

// skipOthers skips folders without layers: those with output, and those not made from layers.
func skipOthers(dir string) error {
	others := []string{
		"crds", "csi-addons", "helm", "kubectl", "monitoring", "namespace", "schema", "snapshots",
	}
	if slices.Contains(others, dir) {
		return fs.SkipDir
	}
	steps := strings.Split(dir, "/")
	if len(steps) == 3 && steps[0] == "drivers" && steps[2] == "generated" {
		return fs.SkipDir
	}
	return nil
}
