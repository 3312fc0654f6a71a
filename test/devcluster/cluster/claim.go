package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// Claim reserves a folder for the clusters of this process until the caller closes the result, at
// the latest until this process ends. It fails if another process has claimed the folder, or if the
// folder belongs to another program. It kills processes of the programs in the folders bins that an
// earlier cluster in dir left, and returns their number.
func Claim(dir paths.Dir, bins ...string) (claim io.Closer, killed int, err error) {
	if err := dir.Own(); err != nil {
		return nil, 0, err
	}
	file, err := os.OpenFile(dir.Lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("a devcluster runs in %s already: stop it, or choose another --dir", dir)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, process.KillLeftovers(string(dir), bins...), nil
}
