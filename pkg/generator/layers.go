package generator

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

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
}

// readLayers decodes and validates all manifests. A file that no manifest names is an error.
func readLayers(fsys fs.FS) (*layers, error) {
	kinds, err := newKinds()
	if err != nil {
		return nil, err
	}
	l := &layers{fsys: fsys, kinds: kinds, flavours: map[flavour.Flavour]manifest[layer]{}}
	var errs []error
	l.base, err = readManifest[layer](fsys, "base/layer.yaml")
	errs = append(errs, err)
	for _, f := range flavour.All() {
		l.flavours[f], err = readManifest[layer](fsys, path.Join("flavours", string(f), "layer.yaml"))
		errs = append(errs, err)
	}
	l.sidecars, err = readManifests[sidecar](fsys, "sidecars/*/sidecar.yaml")
	errs = append(errs, err)
	l.drivers, err = readManifests[driver](fsys, "drivers/*/driver.yaml")
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return l, l.validate()
}

func readManifest[T any](fsys fs.FS, file string) (manifest[T], error) {
	var m manifest[T]
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return m, fmt.Errorf("reading manifest: %w", err)
	}
	if m.document, err = parse(file, text); err != nil {
		return m, err
	}
	return m, m.decodeStrictly(&m.content)
}

func readManifests[T any](fsys fs.FS, pattern string) (map[string]manifest[T], error) {
	files, err := fs.Glob(fsys, pattern)
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", pattern, err)
	}
	manifests := map[string]manifest[T]{}
	var errs []error
	for _, file := range files {
		m, err := readManifest[T](fsys, file)
		manifests[path.Base(path.Dir(file))] = m
		errs = append(errs, err)
	}
	return manifests, errors.Join(errs...)
}

func checkUnused(fsys fs.FS, used map[string]bool) error {
	var errs []error
	walk := func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipOthers(file)
		}
		if !used[file] && path.Ext(file) != ".go" && path.Ext(file) != ".md" {
			at := position.Position{File: file, Line: 1}
			errs = append(errs, position.ErrorAt(at, "no manifest uses this file"))
		}
		return nil
	}
	if err := fs.WalkDir(fsys, ".", walk); err != nil {
		errs = append(errs, fmt.Errorf("walking layers: %w", err))
	}
	return errors.Join(errs...)
}

// skipOthers skips folders without layers: those with output, and those of what is not generated
// from layers.
func skipOthers(dir string) error {
	others := []string{"crds", "csi-addons", "helm", "kubectl", "monitoring", "schema", "snapshots"}
	if slices.Contains(others, dir) {
		return fs.SkipDir
	}
	steps := strings.Split(dir, "/")
	if len(steps) == 3 && steps[0] == "drivers" && steps[2] == "generated" {
		return fs.SkipDir
	}
	return nil
}
