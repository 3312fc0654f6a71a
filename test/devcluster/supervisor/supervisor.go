// Package supervisor runs the devcluster of a folder in one process only, in the background if
// required, and finds and ends that process. Package command calls it.
package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

// Phase of a devcluster.
type Phase string

// The phases.
const (
	Down     Phase = "down"
	Starting Phase = "starting"
	Ready    Phase = "ready"
	Failed   Phase = "failed"
)

// State describes the running process.
type State struct {
	Phase   Phase     `json:"phase"`
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started"`
	// Error explains phase failed.
	Error string `json:"error,omitempty"`
}

// ErrRunning is returned when another process runs the cluster of the folder.
var ErrRunning = errors.New("a devcluster is running here already")

// Serve runs work while it holds the lock of the folder, and writes the state to a file. Work calls
// ready once the cluster can be used.
func Serve(dir paths.Dir, work func(ready func() error) error) error {
	lock, err := acquire(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	state := State{Phase: Starting, PID: os.Getpid(), Started: time.Now()}
	if err := write(dir, state); err != nil {
		return err
	}
	if err := os.WriteFile(dir.PID(), []byte(strconv.Itoa(state.PID)+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the process id: %w", err)
	}
	err = work(func() error {
		state.Phase = Ready
		return write(dir, state)
	})
	state = State{Phase: Down, Started: state.Started}
	if err != nil {
		state.Phase, state.Error = Failed, err.Error()
	}
	return errors.Join(err, write(dir, state), os.Remove(dir.PID()))
}

// acquire takes the lock. It is a POSIX record lock: the kernel knows the process that holds it,
// and releases it when that process ends.
func acquire(dir paths.Dir) (*os.File, error) {
	if err := os.MkdirAll(string(dir), 0o755); err != nil {
		return nil, fmt.Errorf("making the state folder: %w", err)
	}
	lock, err := os.OpenFile(dir.Lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	err = syscall.FcntlFlock(lock.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		err = fmt.Errorf("%w: %s", ErrRunning, dir)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// holder returns the id of the process that holds the lock, or 0.
func holder(dir paths.Dir) (int, error) {
	lock, err := os.OpenFile(dir.Lock(), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("opening the lock: %w", err)
	}
	defer lock.Close()
	probe := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(lock.Fd(), syscall.F_GETLK, &probe); err != nil {
		return 0, fmt.Errorf("asking for the lock: %w", err)
	}
	if probe.Type == syscall.F_UNLCK {
		return 0, nil
	}
	return int(probe.Pid), nil
}

// Read returns the state of the cluster in a folder. The state that a killed process left is Down.
func Read(dir paths.Dir) (State, error) {
	content, err := os.ReadFile(dir.State())
	if errors.Is(err, os.ErrNotExist) {
		return State{Phase: Down}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the state: %w", err)
	}
	var state State
	if err := json.Unmarshal(content, &state); err != nil {
		return State{}, fmt.Errorf("decoding the state: %w", err)
	}
	if state.Phase == Starting || state.Phase == Ready {
		if pid, err := holder(dir); err != nil || pid == 0 {
			return State{Phase: Down}, err
		}
	}
	return state, nil
}

func write(dir paths.Dir, state State) error {
	content, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	return paths.WriteFile(dir.State(), append(content, '\n'))
}

// Stop ends the process that runs the cluster of a folder, waits for it, and returns whether there
// was one.
func Stop(ctx context.Context, dir paths.Dir, grace time.Duration) (bool, error) {
	pid, err := holder(dir)
	if err != nil || pid == 0 {
		return false, err
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return true, fmt.Errorf("ending process %d: %w", pid, err)
		}
		if waitReleased(ctx, dir, grace) {
			return true, nil
		}
	}
	return true, fmt.Errorf("process %d does not end", pid)
}

func waitReleased(ctx context.Context, dir paths.Dir, grace time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if pid, err := holder(dir); err == nil && pid == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
