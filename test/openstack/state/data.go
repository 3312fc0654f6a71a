// Package state contains what the simulated OpenStack services share: the data of volumes as sparse
// files, that of shares as folders, operations that continue after an answer, and IDs.
package state

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Data is the data of the volumes, snapshots or shares of one kind: a file or a folder for each, in
// a folder of the cloud. In a cloud without a folder its methods do nothing.
type Data struct{ folder string }

// NewData creates an empty folder of that name in the folder of the cloud, which is "" if the cloud
// has none. It removes what an earlier cloud left there.
func NewData(cloud, name string) (Data, error) {
	if cloud == "" {
		return Data{}, nil
	}
	data := Data{folder: filepath.Join(cloud, name)}
	err := errors.Join(os.RemoveAll(data.folder), os.MkdirAll(data.folder, 0o755))
	if err != nil {
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

// MakeFolder creates a folder that every user may write to.
func (d Data) MakeFolder(id string) error {
	if d.folder == "" {
		return nil
	}
	// Chmod, whatever the umask is.
	return errors.Join(os.Mkdir(d.Path(id), 0o777), os.Chmod(d.Path(id), 0o777))
}

// CopyFrom copies a file or a folder of another kind, with holes, owners and modes, or shares its
// blocks where the file system can.
func (d Data) CopyFrom(ctx context.Context, other Data, from, id string) error {
	if d.folder == "" {
		return nil
	}
	// The standard library copies neither holes nor owners.
	command := exec.CommandContext(ctx, "cp", "--archive", "--sparse=always", "--reflink=auto",
		"--no-target-directory", other.Path(from), d.Path(id))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if output, err := command.CombinedOutput(); err != nil {
		err = fmt.Errorf("copying %s: %w: %s", other.Path(from), err, bytes.TrimSpace(output))
		return errors.Join(err, d.Remove(id))
	}
	return nil
}

// Remove removes the data. Data that does not exist is no error.
func (d Data) Remove(id string) error {
	if d.folder == "" {
		return nil
	}
	return os.RemoveAll(d.Path(id))
}

// NamedID returns a UUID that depends on the kind and the name only, so that a resource has the
// same ID in each run.
func NamedID(kind, name string) string {
	sum := sha256.Sum256([]byte(kind + "\n" + name))
	sum[6] = sum[6]&0x0f | 0x50 // version 5: made of a name
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
