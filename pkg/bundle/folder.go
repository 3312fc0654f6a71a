package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

const (
	generatedFolder = "generated"
	indexName       = "index.yaml"
	indexHeader     = "# Generated; do not edit, run `make update`. " +
		"The order is the order to apply the assets in.\n"
)

type index struct {
	Assets []Asset `json:"assets"`
}

func compareWithFiles(fsys fs.FS, folder string, listed []Asset) error {
	entries, err := fs.ReadDir(fsys, folder)
	if err != nil {
		return fmt.Errorf("listing assets: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		inIndex := slices.ContainsFunc(listed, func(a Asset) bool { return a.Name == entry.Name() })
		if !inIndex && !entry.IsDir() && entry.Name() != indexName {
			errs = append(errs, fmt.Errorf("%s: file %q is not in the index", folder, entry.Name()))
		}
	}
	for _, asset := range listed {
		exists := slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			return e.Name() == asset.Name && !e.IsDir()
		})
		if !exists {
			errs = append(errs, fmt.Errorf("%s: the index lists %q, which does not exist", folder,
				asset.Name))
		}
	}
	return errors.Join(errs...)
}

// Save writes the index and the assets to dir and removes all other files there. It does not write
// files that are up to date.
func (b *Bundle) Save(dir string) error {
	text, err := yaml.Marshal(index{Assets: b.assets})
	if err != nil {
		return fmt.Errorf("encoding index: %w", err)
	}
	files := map[string][]byte{indexName: append([]byte(indexHeader), text...)}
	for _, asset := range b.assets {
		files[asset.Name] = asset.Data
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating folder of the bundle: %w", err)
	}
	if err := removeOthers(dir, files); err != nil {
		return err
	}
	for name, content := range files {
		if err := writeChanged(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	return nil
}

func removeOthers(dir string, files map[string][]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing folder of the bundle: %w", err)
	}
	for _, entry := range entries {
		if _, wanted := files[entry.Name()]; wanted && entry.Type().IsRegular() {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("removing stale asset: %w", err)
		}
	}
	return nil
}

func writeChanged(file string, content []byte) error {
	if old, err := os.ReadFile(file); err == nil && slices.Equal(old, content) {
		return nil
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return fmt.Errorf("writing asset: %w", err)
	}
	return nil
}
