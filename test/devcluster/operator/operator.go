// Package operator runs an operator as a process of this machine, as a kubelet would run its pod.
// Package command calls it.
package operator

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

const (
	// stopGrace is the termination grace period of a pod.
	stopGrace = 30 * time.Second
	// An operator that fails sooner than healthyAfter has crashed. It is started crashLimit times,
	// restartDelay apart.
	healthyAfter = 10 * time.Second
	crashLimit   = 3
	restartDelay = time.Second
	// The delay doubles, up to delayLimit, while the operator succeeds but ends soon after its start.
	delayLimit = 16 * time.Second
)

// Runner runs one operator.
type Runner struct {
	Operator fixtures.Operator
	// Guest is the guest cluster of the operator. It is empty in a standalone cluster.
	Guest string
	// Bin is the folder of its program.
	Bin string
	Dir paths.Dir
	// Env is the environment of its Deployment.
	Env []string
	// Progress receives lines for people.
	Progress io.Writer
}

// Args returns the arguments of the operator's Deployment, with files of this machine.
func (r Runner) Args() []string {
	args := []string{
		"start", "-v=2",
		"--config=" + r.Dir.OperatorConfig(r.Operator.Name),
		"--terminate-on-files=" + r.Dir.OperatorConfig(r.Operator.Name),
	}
	if r.Guest != "" {
		args = append(args, "--guest-kubeconfig="+r.Dir.GuestKubeconfig())
	}
	return append(args,
		"--kubeconfig="+r.Dir.Kubeconfig(r.Operator.Name),
		"--namespace="+r.Operator.Namespace,
	)
}

// Name returns the name in messages.
func (r Runner) Name() string {
	if r.Guest == "" {
		return r.Operator.Program
	}
	return r.Operator.Program + " of " + r.Guest
}

// Path returns the operator's program.
func (r Runner) Path() string { return r.Bin + string(os.PathSeparator) + r.Operator.Program }

// Check returns an error if the program does not exist.
func (r Runner) Check() error {
	if _, err := os.Stat(r.Path()); err != nil {
		return fmt.Errorf("looking for the operator, which `make` builds: %w", err)
	}
	return nil
}

// Run starts the operator, and restarts it whenever it ends: an operator ends to read a new
// configuration. Run returns nil when ctx ends, and an error when the operator crashes repeatedly.
func (r Runner) Run(ctx context.Context) error {
	crashes, delay := 0, restartDelay
	for {
		start := time.Now()
		p, err := r.runOnce(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if time.Since(start) > healthyAfter {
			crashes, delay = 0, restartDelay
		}
		if !p.Succeeded() {
			crashes++
		}
		if crashes == crashLimit {
			return p.ExitError()
		}
		how := "failed"
		if p.Succeeded() {
			how = "ended by itself"
		}
		fmt.Fprintf(r.Progress, "%s %s; starting it again in %s\n", r.Name(), how, delay)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
		if p.Succeeded() {
			delay = min(2*delay, delayLimit)
		}
	}
}

// runOnce returns the process when it has ended. It stops the process when ctx ends.
func (r Runner) runOnce(ctx context.Context) (*process.Process, error) {
	p, err := process.Start(process.Options{
		Name: r.Name(), Path: r.Path(), Args: r.Args(), Env: r.environment(), Log: r.log(),
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		p.Stop(stopGrace)
	case <-p.Done():
	}
	return p, nil
}

// environment returns the environment of the Deployment, and the variables that any program needs:
// OS_CLOUD or KUBECONFIG of the user must not reach the operator.
func (r Runner) environment() []string {
	inherited := []string{
		"PATH", "HOME", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GODEBUG", "GOCOVERDIR",
	}
	env := slices.Clone(r.Env)
	for _, name := range inherited {
		if value, found := os.LookupEnv(name); found {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (r Runner) log() string { return r.Dir.OperatorLog(r.Operator.Program) }
