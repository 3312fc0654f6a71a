package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/pflag"
)

// options are the flags of the command.
type options struct {
	root, output, push string
	insecure           bool
	platforms          []string
	// release is the version and the commit of the sources. Both are empty without git.
	version, revision string
	created           time.Time
}

// parse returns the options in the arguments. What they do not contain, it reads from git.
func parse(ctx context.Context, args []string, help io.Writer) (options, error) {
	var o options
	flags := pflag.NewFlagSet("images", pflag.ContinueOnError)
	flags.SetOutput(help)
	flags.StringVar(&o.root, "root", ".", "Folder with the Dockerfiles and the sources.")
	flags.StringVar(&o.output, "output", "bin/images",
		"Folder for the OCI layouts and the SBOMs. Each image replaces its earlier layout.")
	flags.StringVar(&o.push, "push", "",
		"Registry and path to which the images are pushed, such as quay.io/you.")
	flags.BoolVar(&o.insecure, "insecure", false, "Allow HTTP for the registry.")
	flags.StringSliceVar(&o.platforms, "platforms", []string{"linux/amd64", "linux/arm64"},
		"Platforms of each image.")
	flags.StringVar(&o.version, "version", "",
		"Version of the images, which is also their tag; by default what git describes.")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, o.readGit(ctx)
}

// readGit reads version, commit and time of the commit. Without a repository the images have the
// version "unversioned", no commit, and the time 0.
func (o *options) readGit(ctx context.Context) error {
	o.created = time.Unix(0, 0).UTC()
	var err error
	if o.revision, err = o.git(ctx, "rev-parse", "--quiet", "--verify", "HEAD"); err != nil {
		return err
	}
	if o.revision != "" {
		seconds, err := o.git(ctx, "log", "-1", "--format=%ct")
		if err != nil {
			return err
		}
		number, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return fmt.Errorf("reading the time of the commit: %w", err)
		}
		o.created = time.Unix(number, 0).UTC()
	}
	if o.version == "" {
		if o.version, err = o.git(ctx, "describe", "--tags", "--always", "--dirty"); err != nil {
			return err
		}
	}
	if o.version == "" {
		o.version = "unversioned"
	}
	return nil
}

// git returns the output of a command of git, or nothing if the folder is in no repository.
func (o *options) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", o.root}, args...)...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) || errors.Is(err, exec.ErrNotFound) {
		return "", nil
	}
	return strings.TrimSpace(string(out)), err
}

// parsePlatforms returns platforms like linux/arm64.
func parsePlatforms(names []string) ([]v1.Platform, error) {
	var platforms []v1.Platform
	for _, name := range names {
		platform, err := v1.ParsePlatform(name)
		if err != nil || platform.OS == "" || platform.Architecture == "" {
			return nil, fmt.Errorf("--platforms: %q is not like linux/arm64", name)
		}
		platforms = append(platforms, *platform)
	}
	return platforms, nil
}
