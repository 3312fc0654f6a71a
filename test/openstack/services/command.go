package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// AccessVariable is the environment variable with the file that contains the Access to services
// that another process has started.
const AccessVariable = "OPENSTACK_SERVICES"

// Main runs a command while the services run, with AccessVariable in its environment, and returns
// its exit code. SIGINT, SIGTERM and SIGHUP stop both.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM,
		syscall.SIGHUP)
	defer stop()
	err := run(ctx, args, stdout, stderr)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() > 0 {
		return failed.ExitCode()
	}
	if err != nil {
		fmt.Fprintf(stderr, "openstack-services: %v\n", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return errors.New("usage: openstack-services COMMAND [ARGUMENT...] runs the command while the " +
			"services run")
	}
	dir, err := os.MkdirTemp("", "openstack-services-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	say := func(step string) {
		fmt.Fprintf(stdout, "%6.1fs %s\n", time.Since(start).Seconds(), step)
	}
	services, err := Start(ctx, dir, say)
	if err != nil {
		return err
	}
	defer services.Stop()
	file := filepath.Join(dir, "access.json")
	if err := services.Access().Save(file); err != nil {
		return err
	}
	say("the services run; starting " + args[0])
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), AccessVariable+"="+file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	return cmd.Run()
}
