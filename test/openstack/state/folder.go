//go:build linux

// Package state stores the state of the simulated OpenStack services: records as JSON files, the
// data of volumes as sparse files, and the data of shares as folders. The packages of the services
// use it. Without a folder it keeps records in memory and stores no data.
package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Folder is the folder of one cloud. The zero value is a cloud without a folder.
type Folder struct {
	path string
	lock *os.File
}

// Open creates a folder if it does not exist, and locks it until Close is called or the process
// ends. With an empty path it returns a Folder without a folder. It fails if another process has
// locked the folder.
func Open(path string) (Folder, error) {
	if path == "" {
		return Folder{}, nil
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = os.MkdirAll(path, 0o755)
	}
	if err != nil {
		return Folder{}, fmt.Errorf("creating the state folder of the cloud: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return Folder{}, fmt.Errorf("locking the state folder of the cloud: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("locking %s: another cloud uses this state folder: %w", path, err)
		return Folder{}, errors.Join(err, lock.Close())
	}
	return Folder{path: path, lock: lock}, nil
}

// Close unlocks the folder.
func (f Folder) Close() error {
	if f.lock == nil {
		return nil
	}
	// Without this the lock lasts while a child process that was just forked has a copy of the file.
	return errors.Join(syscall.Flock(int(f.lock.Fd()), syscall.LOCK_UN), f.lock.Close())
}

// OnDisk returns whether there is a folder.
func (f Folder) OnDisk() bool { return f.path != "" }

// Path returns the path of a file or folder in it, or "" if there is no folder.
func (f Folder) Path(elements ...string) string {
	if f.path == "" {
		return ""
	}
	return filepath.Join(append([]string{f.path}, elements...)...)
}
