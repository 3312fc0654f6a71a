// Package release builds the images of the operators without a container engine. It reads from the
// Dockerfiles how to build and run the programs. Its callers are hack/images and test/node/images.
package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/openstack-csi/csi-operator/hack/images/dockerfile"
	"github.com/openstack-csi/csi-operator/hack/images/image"
)

// Build builds the image of each Dockerfile, writes its OCI layout and an SBOM for each platform,
// and pushes the image if the options name a registry. It also builds the plugin of kubectl, which
// is not pushed. With Options.Registry it also writes the other files of a release. It writes a
// line for each step.
func Build(ctx context.Context, o Options, progress io.Writer) error {
	files, err := filepath.Glob(filepath.Join(o.Root, "Dockerfile.*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s contains no Dockerfile.*: name the root of the sources", o.Root)
	}
	platforms, err := parsePlatforms(o.Platforms)
	if err == nil && o.Registry != "" {
		err = o.checkRelease()
	}
	if err != nil {
		return err
	}
	sources, err := o.readCommit(ctx)
	if err != nil {
		return err
	}
	for _, file := range files {
		d, err := dockerfile.Read(file)
		if err != nil {
			return err
		}
		r := release{o, d, sources, progress}
		if err := r.build(ctx, platforms); err != nil {
			return fmt.Errorf("building the image of %s: %w", file, err)
		}
	}
	if o.Registry == "" {
		return o.plugin(ctx, sources, platforms, progress)
	}
	if err := o.plugin(ctx, sources, pluginPlatforms(), progress); err != nil {
		return err
	}
	return o.files(ctx)
}

// release builds the image of one Dockerfile.
type release struct {
	Options
	dockerfile.Dockerfile
	commit   commit
	progress io.Writer
}

func (r release) build(ctx context.Context, platforms []v1.Platform) error {
	programs, err := os.MkdirTemp("", "csi-operator-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	if err := os.MkdirAll(r.Output, 0o755); err != nil {
		return err
	}
	var images []v1.Image
	var bills []attachment
	for _, platform := range platforms {
		fmt.Fprintf(r.progress, "Building %s for %s\n", r.name(), platform)
		folder := filepath.Join(programs, platform.OS+"-"+platform.Architecture)
		if err := r.compile(ctx, platform, folder); err != nil {
			return err
		}
		img, err := r.image(platform, folder)
		if err != nil {
			return err
		}
		attached, err := r.bills(platform, folder, img)
		if err != nil {
			return err
		}
		images, bills = append(images, img), append(bills, attached...)
	}
	index, err := image.Index(images)
	if err != nil {
		return err
	}
	if err := r.write(index); err != nil {
		return err
	}
	return r.pushAll(ctx, index, bills)
}

func (r release) name() string {
	return r.Labels["name"]
}

func (r release) write(index v1.ImageIndex) error {
	folder := filepath.Join(r.Output, r.name())
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	path, err := image.Layout(folder)
	if err != nil {
		return err
	}
	// Tools that copy a layout find the image by this name.
	name := map[string]string{"org.opencontainers.image.ref.name": r.commit.version}
	if err := path.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(r.progress, "%s: %s\n", folder, digest)
	return nil
}

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
