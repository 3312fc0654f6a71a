// Command node-images builds the images of everything that runs in the pods of a real node, and
// prints their names and files. `make node-images` calls it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/openstack-csi/csi-operator/test/node/images"
)

// run builds the images and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	flags := pflag.NewFlagSet("node-images", pflag.ContinueOnError)
	flags.SetOutput(stdout)
	root := flags.String("root", ".", "Root of the repository.")
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintf(stderr, "node-images: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := build(ctx, *root, stdout); err != nil {
		fmt.Fprintf(stderr, "node-images: %v\n", err)
		return 1
	}
	return 0
}

func build(ctx context.Context, folder string, stdout io.Writer) error {
	root, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if err := images.Build(ctx, root, stdout); err != nil {
		return err
	}
	list, err := images.List(root)
	if err != nil {
		return err
	}
	for _, image := range list {
		fmt.Fprintf(stdout, "%s %s\n", image.Name, image.File)
	}
	return nil
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
