//go:build linux

package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Data is the data of the volumes, snapshots or shares of one kind: a file or a folder for each, in
// a folder of the cloud. In a cloud without a folder its methods do nothing.
type Data struct{ folder string }

// OpenData creates the folder of that name.
func OpenData(folder Folder, name string) (Data, error) {
	data := Data{folder: folder.Path(name)}
	if data.folder == "" {
		return data, nil
	}
	if err := os.MkdirAll(data.folder, 0o755); err != nil {
		return Data{}, fmt.Errorf("creating the folder of the %s: %w", name, err)
	}
	return data, nil
}

// Path returns the file or the folder with the data, or "" in a cloud without a folder.
func (d Data) Path(id string) string {
	if d.folder == "" {
		return ""
	}
	return filepath.Join(d.folder, id)
}

// MakeFile creates a sparse file of that size in bytes, or extends one.
func (d Data) MakeFile(id string, size int64) error {
	if d.folder == "" {
		return nil
	}
	file, err := os.OpenFile(d.Path(id), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() < size {
		err = file.Truncate(size)
	}
	return errors.Join(err, file.Close())
}

// MakeFolder creates a folder that every user may write to, or does nothing if it exists.
func (d Data) MakeFolder(id string) error {
	if d.folder == "" {
		return nil
	}
	if err := os.MkdirAll(d.Path(id), 0o777); err != nil {
		return err
	}
	return os.Chmod(d.Path(id), 0o777) // whatever the umask is
}

// CopyFrom copies a file or a folder of another kind, with holes, owners and modes, or shares its
// blocks where the file system can. After a crash the copy is complete or does not exist.
func (d Data) CopyFrom(ctx context.Context, other Data, from, id string) error {
	if d.folder == "" {
		return nil
	}
	target := d.Path(id)
	if err := errors.Join(os.RemoveAll(target), os.RemoveAll(target+temporary)); err != nil {
		return err
	}
	// The standard library copies neither holes nor owners.
	command := exec.CommandContext(ctx, "cp", "--archive", "--sparse=always", "--reflink=auto",
		"--no-target-directory", other.Path(from), target+temporary)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if output, err := command.CombinedOutput(); err != nil {
		err = fmt.Errorf("copying %s: %w: %s", other.Path(from), err, bytes.TrimSpace(output))
		return errors.Join(err, os.RemoveAll(target+temporary))
	}
	return os.Rename(target+temporary, target)
}

// Remove removes the data. Data that does not exist is no error.
func (d Data) Remove(id string) error {
	if d.folder == "" {
		return nil
	}
	return errors.Join(os.RemoveAll(d.Path(id)+temporary), os.RemoveAll(d.Path(id)))
}

// RemoveUnknown removes the data for which there is no record: a crash may come after the removal
// of a record and before that of the data.
func (d Data) RemoveUnknown(known func(id string) bool) error {
	if d.folder == "" {
		return nil
	}
	entries, err := os.ReadDir(d.folder)
	for _, entry := range entries {
		if !known(entry.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.folder, entry.Name())))
		}
	}
	return err
}

// Used returns the sum of the sizes of the files of a folder in bytes.
func (d Data) Used(id string) (used int64, err error) {
	if d.folder == "" {
		return 0, nil
	}
	err = filepath.WalkDir(d.Path(id), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			used += info.Size()
		}
		return err
	})
	return used, err
}
