// Command images builds the images of the operators without a container engine, as OCI layouts, and
// pushes them to a registry. It reads from the Dockerfiles how to build and run the programs. `make
// images` calls it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/openstack-csi/csi-operator/hack/images/release"
)

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(args, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = release.Build(ctx, o, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "images: %v\n", err)
		return 1
	}
	return 0
}

// parse returns the options in the arguments.
func parse(args []string, help io.Writer) (release.Options, error) {
	var o release.Options
	flags := pflag.NewFlagSet("images", pflag.ContinueOnError)
	flags.SetOutput(help)
	flags.StringVar(&o.Root, "root", ".", "Folder with the Dockerfiles and the sources.")
	flags.StringVar(&o.Output, "output", "bin/images",
		"Folder for the OCI layouts and the SBOMs. Each image replaces its earlier layout.")
	flags.StringSliceVar(&o.Platforms, "platforms", []string{"linux/amd64", "linux/arm64"},
		"Platforms of each image.")
	flags.StringVar(&o.Version, "version", "",
		"Version of the images, which is also their tag; by default what git describes.")
	flags.StringVar(&o.Push, "push", "",
		"Registry and path to which the images are pushed, such as quay.io/you.")
	flags.StringVar(&o.Registry, "registry", "",
		"Registry and path under which the files of a release name the images, such as quay.io/you. "+
			"With it, the command also writes these files, which needs --version.")
	flags.StringVar(&o.Kubectl, "kubectl", "kubectl", "Program that builds kustomizations.")
	flags.BoolVar(&o.Insecure, "insecure", false, "Allow HTTP for the registry.")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, nil
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
