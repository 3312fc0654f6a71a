//go:build linux

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// temporary ends the name of a file that is not complete yet.
const temporary = ".new"

// Table contains records of one type by ID. Each record is a file, so that a change writes only
// that record. It is safe for concurrent use; callers do not change a record that they got.
type Table[T any] struct {
	folder string // "" in memory

	mu      sync.Mutex
	records map[string]T
}

// OpenTable reads the records of a table of that name, which is a folder below records.
func OpenTable[T any](folder Folder, name string) (*Table[T], error) {
	table := &Table[T]{folder: folder.Path("records", name), records: map[string]T{}}
	if table.folder == "" {
		return table, nil
	}
	if err := os.MkdirAll(table.folder, 0o755); err != nil {
		return nil, fmt.Errorf("creating the table %s: %w", name, err)
	}
	files, err := os.ReadDir(table.folder)
	if err != nil {
		return nil, fmt.Errorf("reading the table %s: %w", name, err)
	}
	for _, file := range files {
		if err := table.read(file.Name()); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// read reads the file of a record, or removes a file that a crash left incomplete.
func (t *Table[T]) read(name string) error {
	path := filepath.Join(t.folder, name)
	if strings.HasSuffix(name, temporary) {
		return os.Remove(path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var record T
	if err := json.Unmarshal(content, &record); err != nil {
		return fmt.Errorf("parsing %s: %w", path, err)
	}
	t.records[strings.TrimSuffix(name, ".json")] = record
	return nil
}

// Get returns a record.
func (t *Table[T]) Get(id string) (record T, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	record, found = t.records[id]
	return record, found
}

// Has returns whether there is a record.
func (t *Table[T]) Has(id string) bool {
	_, found := t.Get(id)
	return found
}

// List returns all records in no order.
func (t *Table[T]) List() []T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.records))
}

// Put writes a record. It is on disk when Put returns; after a crash the file contains the old or
// the new record.
func (t *Table[T]) Put(id string, record T) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.folder != "" {
		content, err := json.MarshalIndent(record, "", "  ")
		if err == nil {
			err = replaceFile(filepath.Join(t.folder, id+".json"), content)
		}
		if err != nil {
			return fmt.Errorf("writing the record %s: %w", id, err)
		}
	}
	t.records[id] = record
	return nil
}

// Delete removes a record. A record that does not exist is no error.
func (t *Table[T]) Delete(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.folder != "" {
		err := os.Remove(filepath.Join(t.folder, id+".json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the record %s: %w", id, err)
		}
	}
	delete(t.records, id)
	return nil
}

// replaceFile writes a file so that a crash leaves the old or the new content.
func replaceFile(path string, content []byte) error {
	file, err := os.OpenFile(path+temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+temporary, path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
