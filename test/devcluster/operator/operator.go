// Package operator runs an operator as a process of this machine, as a kubelet would run its pod.
// Package command and the integration tests call it.
package operator

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// Args returns the arguments of the operator's Deployment, with files of this machine, and the
// identity of its pod.
func (r Runner) Args() []string {
	container := r.Operator.Container()
	args := slices.Clone(container.Args)
	for i, arg := range args {
		flag, path, _ := strings.Cut(arg, "=")
		mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return strings.HasPrefix(path, m.MountPath+"/")
		})
		if mounted {
			args[i] = flag + "=" + r.Dir.Mounted(r.Operator.Name, path)
		}
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

// Environment returns the environment of the Deployment, and variables of this process: those that
// any program needs, and more. OS_CLOUD or KUBECONFIG of the user must not reach the operator.
func (r Runner) Environment(more ...string) []string {
	env := slices.Clone(r.Env)
	for _, name := range append([]string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR"}, more...) {
		if value, found := os.LookupEnv(name); found {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Log returns the log, to which each process of the operator appends.
func (r Runner) Log() string { return r.Dir.OperatorLog(r.Operator.Program) }

// Run starts the operator, and restarts it whenever it ends: an operator ends to read a new
// configuration. Run returns nil when ctx ends, and an error when the operator crashes repeatedly.
func (r Runner) Run(ctx context.Context) error {
	env := r.Environment("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GODEBUG")
	for crashes := 0; ; {
		start := time.Now()
		p, err := process.Start(process.Options{
			Name: r.Name(), Path: r.Path(), Args: r.Args(), Env: env, Log: r.Log(),
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
		if time.Since(start) > healthyAfter {
			crashes = 0
		}
		how := "ended"
		if p.Err() != nil {
			how = "failed"
			crashes++
		}
		if crashes == crashLimit {
			return p.ExitError()
		}
		fmt.Fprintf(r.Progress, "%s %s; starting it again in %s\n", r.Name(), how, restartDelay)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartDelay):
		}
	}
}
