package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// Options configure Build.
type Options struct {
	// Root is the folder with the Dockerfiles and the sources.
	Root string
	// Output is the folder for the OCI layouts and the SBOMs. Each image replaces its earlier layout.
	Output string
	// Platforms are the platforms of each image, such as linux/arm64.
	Platforms []string
	// Version is the version of the images, which is also their tag; by default what git describes.
	Version string
	// Push is the registry and the path to which the images are pushed; empty for none.
	Push string
	// Insecure allows HTTP for the registry.
	Insecure bool
	// Registry is the registry and the path under which the files of a release name the images. If it
	// is empty, Build does not write these files.
	Registry string
	// Kubectl is the program that builds kustomizations for these files.
	Kubectl string
}

// checkRelease returns an error unless the version can be one of a release.
func (o Options) checkRelease() error {
	_, number, ok := strings.Cut(o.Version, "v")
	if _, err := version.ParseSemantic(number); !ok || err != nil {
		return fmt.Errorf("the version of a release is %q: set one such as v1.0.0", o.Version)
	}
	_, err := o.section()
	return err
}

// commit identifies the sources.
type commit struct {
	version, revision string // the revision is empty without git
	time              time.Time
}

// readCommit reads version, commit and time of the commit. Without a repository the version is
// "unversioned", the commit is empty, and the time is 0.
func (o Options) readCommit(ctx context.Context) (commit, error) {
	c := commit{time: time.Unix(0, 0).UTC()}
	var err error
	if c.revision, err = o.git(ctx, "rev-parse", "--quiet", "--verify", "HEAD"); err != nil {
		return commit{}, err
	}
	if c.revision != "" {
		seconds, err := o.git(ctx, "log", "-1", "--format=%ct")
		if err != nil {
			return commit{}, err
		}
		number, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return commit{}, fmt.Errorf("reading the time of the commit: %w", err)
		}
		c.time = time.Unix(number, 0).UTC()
	}
	described, err := o.git(ctx, "describe", "--tags", "--always", "--dirty")
	c.version = cmp.Or(o.Version, described, "unversioned")
	if o.Push != "" && o.Version == "" && (described == "" || strings.HasSuffix(described, "-dirty")) {
		return commit{}, errors.New("the sources are in no commit of git: set --version for the images " +
			"to push")
	}
	return c, err
}

// git returns the output of a command of git, or nothing if the folder is in no repository.
func (o Options) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", o.Root}, args...)...)
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
			return nil, fmt.Errorf("the platform %q is not like linux/arm64", name)
		}
		platforms = append(platforms, *platform)
	}
	return platforms, nil
}
