package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

// Background starts this program again with other arguments, detached from the terminal, and
// follows its output until the cluster is ready or has failed.
func Background(ctx context.Context, dir paths.Dir, args []string, progress io.Writer) error {
	if err := os.MkdirAll(string(dir), 0o755); err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	pid, err := holder(dir)
	if err == nil && pid != 0 {
		err = fmt.Errorf("%w: %s", ErrRunning, dir)
	}
	if err != nil {
		return err
	}
	// The state of an earlier process must not be read as the state of the new one.
	if err := os.RemoveAll(dir.State()); err != nil {
		return fmt.Errorf("removing the old state: %w", err)
	}
	ended, cmd, err := spawn(dir, args)
	if err != nil {
		return err
	}
	err = follow(ctx, dir, ended, progress)
	if ctx.Err() != nil {
		// The user stopped waiting, so nothing may be left. The only possible error is that the process
		// has ended.
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	}
	return err
}

// spawn truncates the log.
func spawn(dir paths.Dir, args []string) (<-chan struct{}, *exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding this program: %w", err)
	}
	log, err := os.OpenFile(dir.Log(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the log has the reason
		close(ended)
	}()
	return ended, cmd, nil
}

func follow(ctx context.Context, dir paths.Dir, ended <-chan struct{}, progress io.Writer) error {
	log, err := os.Open(dir.Log())
	if err != nil {
		return fmt.Errorf("following the supervisor: %w", err)
	}
	defer log.Close()
	show := func() { _, _ = io.Copy(progress, log) } // only decoration
	defer show()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		show()
		state, err := Read(dir)
		if err != nil {
			return err
		}
		if state.Phase == Ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return errors.New("the devcluster did not start")
		case <-tick.C:
		}
	}
}
