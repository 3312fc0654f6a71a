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
)

const proxySidecar = "kube-rbac-proxy"

// declared is a decoded manifest, its positions and the files it names.
type declared[T any] struct {
	*manifest
	content T
	files   []reference
}

// reference is a file which a manifest names.
type reference struct {
	file string
	at   Position
}

// layers is everything in the assets folder, decoded.
type layers struct {
	fsys     fs.FS
	kinds    runtime.Decoder
	base     declared[layer]
	flavours map[flavour.Flavour]declared[layer]
	sidecars map[string]declared[sidecar]
	drivers  map[string]declared[driver] // by folder
}

// readLayers decodes all manifests and checks that they and the files beside them belong together.
func readLayers(fsys fs.FS) (*layers, error) {
	kinds, err := newKinds()
	if err != nil {
		return nil, err
	}
	read := &layers{fsys: fsys, kinds: kinds, flavours: map[flavour.Flavour]declared[layer]{}}
	var faults []error
	base, err := readLayer(fsys, "base/layer.yaml")
	read.base, faults = base, append(faults, err)
	for _, f := range flavour.All() {
		one, err := readLayer(fsys, path.Join("flavours", string(f), "layer.yaml"))
		read.flavours[f], faults = one, append(faults, err)
	}
	read.sidecars, err = readEach(fsys, "sidecars", "sidecar.yaml", sidecarFiles)
	faults = append(faults, err)
	read.drivers, err = readEach(fsys, "drivers", "driver.yaml", driverFiles)
	faults = append(faults, err)
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if err := read.validate(); err != nil {
		return nil, err
	}
	return read, read.checkFiles()
}

func readLayer(fsys fs.FS, file string) (declared[layer], error) {
	var one declared[layer]
	m, err := decode(fsys, file, &one.content)
	if err != nil {
		return one, err
	}
	one.manifest = m
	one.files = append(layerFiles(m, controllerPart, one.content.Controller), layerFiles(m, nodePart, one.content.Node)...)
	return one, nil
}

// readEach decodes the manifest called name in every folder below parent.
func readEach[T any](
	fsys fs.FS, parent, name string, files func(*manifest, T) []reference,
) (map[string]declared[T], error) {
	all := map[string]declared[T]{}
	found, err := fs.Glob(fsys, path.Join(parent, "*", name))
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", parent, err)
	}
	var faults []error
	for _, file := range found {
		var one declared[T]
		one.manifest, err = decode(fsys, file, &one.content)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		one.files = files(one.manifest, one.content)
		all[path.Base(path.Dir(file))] = one
	}
	return all, errors.Join(faults...)
}

func layerFiles(m *manifest, part string, p layerPart) []reference {
	files := append(m.additions(p.Add, part, "add"), m.patches(p.Patches, part, "patches")...)
	return append(files, m.single(p.Workload, part, "workload")...)
}

func sidecarFiles(m *manifest, s sidecar) []reference {
	files := append(m.additions(s.Add, "add"), m.patches(s.Each, "each")...)
	for option, added := range s.With {
		files = append(files, m.additions(added, "with", option)...)
	}
	files = append(files, m.single(s.Controller, "controller")...)
	files = append(files, m.single(s.Node, "node")...)
	return append(files, m.single(s.Volumes, "volumes")...)
}

func driverFiles(m *manifest, d driver) []reference {
	var files []reference
	for part, p := range d.parts() {
		files = append(files, m.additions(p.Add, part, "add")...)
		files = append(files, m.patches(p.Patches, part, "patches")...)
		files = append(files, m.single(p.Workload, part, "workload")...)
	}
	return files
}

// single refers to a single file, if there is one.
func (m *manifest) single(file string, steps ...any) []reference {
	if file == "" {
		return nil
	}
	return []reference{{file: m.beside(file), at: m.at(steps...)}}
}

func (m *manifest) additions(added []addition, steps ...any) []reference {
	var files []reference
	for i, one := range added {
		files = append(files, reference{file: m.beside(one.File), at: m.at(append(slices.Clone(steps), i)...)})
	}
	return files
}

func (m *manifest) patches(entries []patchEntry, steps ...any) []reference {
	var files []reference
	for i, one := range entries {
		files = append(files, reference{file: m.beside(one.file()), at: m.at(append(slices.Clone(steps), i)...)})
	}
	return files
}

// checkFiles reports files which a manifest names and which are not there, and files which are there for nobody.
func (l *layers) checkFiles() error {
	used := map[string]bool{}
	var faults []error
	for _, ref := range l.references() {
		used[ref.file] = true
		if info, err := fs.Stat(l.fsys, ref.file); err != nil || info.IsDir() {
			faults = append(faults, faultf(ref.at, "there is no file %q", ref.file))
		}
	}
	walk := func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipGenerated(file)
		}
		if !used[file] && path.Ext(file) != ".go" && path.Ext(file) != ".md" {
			faults = append(faults, faultf(Position{File: file, Line: 1}, "no manifest uses this file"))
		}
		return nil
	}
	if err := fs.WalkDir(l.fsys, ".", walk); err != nil {
		faults = append(faults, fmt.Errorf("walking layers: %w", err))
	}
	return errors.Join(faults...)
}

// skipGenerated passes by the output in drivers/<name>/generated.
func skipGenerated(dir string) error {
	steps := strings.Split(dir, "/")
	if len(steps) == 3 && steps[0] == "drivers" && steps[2] == "generated" {
		return fs.SkipDir
	}
	return nil
}

// references returns every file named in a manifest, and the manifests themselves.
func (l *layers) references() []reference {
	all := append(slices.Clone(l.base.files), self(l.base.manifest))
	for _, one := range l.flavours {
		all = append(append(all, one.files...), self(one.manifest))
	}
	for _, one := range l.sidecars {
		all = append(append(all, one.files...), self(one.manifest))
	}
	for _, one := range l.drivers {
		all = append(append(all, one.files...), self(one.manifest))
	}
	return all
}

func self(m *manifest) reference {
	return reference{file: m.file, at: m.at()}
}
