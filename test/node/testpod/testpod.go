// Package testpod is the program of the pods in the tests of package node. Only command testpod
// calls it.
package testpod

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Main runs the command and returns its exit code.
func Main(args []string, stderr io.Writer) int {
	if err := run(append(args, "", "")); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// run runs a command with one argument.
func run(args []string) error {
	switch command := args[0]; command {
	case "pause":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
		<-stop
		return nil
	case "mount":
		return mount(args[1])
	case "stat":
		_, err := os.Stat(args[1])
		return err
	default:
		return fmt.Errorf("command %q is not known", command)
	}
}

// mount mounts a file system with a file on the folder.
func mount(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, ""); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "mounted"), nil, 0o600)
}
