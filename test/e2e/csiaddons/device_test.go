//go:build e2e

package csiaddons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// preventDiscard lets the cloud keep new volumes in a file system whose files cannot have holes, so
// that their devices cannot discard blocks, until the test ends. This program attaches the volumes,
// so a mount in its own namespace is enough. The Makefile gives it one, so that nothing stays on
// the machine if it is killed.
func (x *test) preventDiscard() {
	x.T.Helper()
	x.Eventually("no volume is left", x.findNoVolume)
	folder := x.volumes()
	x.Must(unix.Mount("none", folder, "ramfs", 0, ""))
	x.CleanUp(func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true,
			func(context.Context) (bool, error) { return x.findNoVolume() == nil, nil })
		return errors.Join(err, unix.Unmount(folder, unix.MNT_DETACH))
	})
}

// volumes returns the folder of the files of volumes.
func (x *test) volumes() string {
	return filepath.Join(x.Cluster.Dir.OpenStackState(), "volumes")
}

// findNoVolume returns an error if the cloud contains a volume.
func (x *test) findNoVolume() error {
	files, err := os.ReadDir(x.volumes())
	if err == nil && len(files) > 0 {
		err = fmt.Errorf("%s contains %d files", x.volumes(), len(files))
	}
	return err
}
