// Package operator runs an operator as a process of this machine, as a kubelet
// would run its pod. Package command uses it.
package operator

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/layout"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/devcluster/seed"
)

const (
	// stopGrace is the termination grace period of a pod.
	stopGrace = 30 * time.Second
	// An operator that ends sooner than healthyAfter crashes. It gets crashLimit
	// attempts, restartDelay apart.
	healthyAfter = 10 * time.Second
	crashLimit   = 3
	restartDelay = time.Second
)

// Runner runs one operator.
type Runner struct {
	Operator seed.Operator
	// Bin is the folder of its program.
	Bin string
	Dir layout.Dir
	// Env is the environment of its Deployment.
	Env []string
	// Progress receives lines for people.
	Progress io.Writer
}

// Args are the arguments of the operator's Deployment, with files of this
// machine.
func (r Runner) Args() []string {
	return []string{
		"start", "-v=2",
		"--config=" + r.Dir.OperatorConfig(r.Operator.Name),
		"--terminate-on-files=" + r.Dir.OperatorConfig(r.Operator.Name),
		"--kubeconfig=" + r.Dir.Kubeconfig(r.Operator.Name),
		"--namespace=" + r.Operator.Namespace,
	}
}

// Path is the operator's program.
func (r Runner) Path() string { return r.Bin + string(os.PathSeparator) + r.Operator.Program }

// Check says what is missing before Run can be called.
func (r Runner) Check() error {
	if _, err := os.Stat(r.Path()); err != nil {
		return fmt.Errorf("looking for the operator, which `make` builds: %w", err)
	}
	return nil
}

// Run starts the operator, and again whenever it ends by itself: it does so to
// take over a new configuration. It returns nil when ctx ends, and an error when
// the operator keeps ending at once.
func (r Runner) Run(ctx context.Context) error {
	for crashes := 0; ; {
		start := time.Now()
		p, err := process.Start(process.Options{
			Name: r.Operator.Program, Path: r.Path(), Args: r.Args(), Env: r.environment(), Log: r.log(),
		})
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			p.Stop(stopGrace)
			return nil
		case <-p.Done():
		}
		crashes++
		if time.Since(start) > healthyAfter {
			crashes = 1
		}
		if crashes == crashLimit {
			return p.ExitError()
		}
		fmt.Fprintf(r.Progress, "%s ended; starting it again\n", r.Operator.Program)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartDelay):
		}
	}
}

// environment is as small as in a pod: OS_CLOUD or KUBECONFIG of the user's shell
// must not reach the operator. What a program needs to run at all, a proxy and
// the switches of the Go runtime do.
func (r Runner) environment() []string {
	inherited := []string{"PATH", "HOME", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GODEBUG", "GOCOVERDIR"}
	env := slices.Clone(r.Env)
	for _, name := range inherited {
		if value, found := os.LookupEnv(name); found {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (r Runner) log() string { return r.Dir.OperatorLog(r.Operator.Program) }
