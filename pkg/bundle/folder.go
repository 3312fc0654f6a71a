package bundle

import (
	"errors"
	"fmt"
	"io/fs"
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
