//go:build integration && buildah

package supplychain

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/hack/images/dockerfile"
)

// TestDockerfilesBuildImagesThatRun builds the image of each Dockerfile with buildah, on base
// images that it makes itself: Debian with Go, and an empty one. Each image contains the programs
// of `make images`, which TestReleaseRunsOnNodes runs in pods, and each program starts in it.
func TestDockerfilesBuildImagesThatRun(t *testing.T) {
	t.Parallel()
	requireTools(t)
	b := newBuildah(t)
	b.makeBuilder(t)
	layouts := buildImages(t, newPlace(t))
	for file, d := range readDockerfiles(t) {
		folder := b.build(t, file, d)
		img := readImage(t, filepath.Join(layouts, d.Labels["name"]))
		for _, program := range d.Programs {
			built, err := os.ReadFile(filepath.Join(folder, program.Path))
			assert.NilError(t, err)
			assert.Check(t, sha256.Sum256(built) == sha256.Sum256(fileOf(t, img, program.Path)),
				"%s and `make images` build different programs %s", file, program.Path)
			testHelp(t, folder, program, d)
		}
	}
}

func requireTools(t *testing.T) {
	t.Helper()
	assert.Assert(t, os.Getuid() == 0,
		"the test needs root: it creates file systems with their owners")
	for _, tool := range []string{"buildah", "mmdebstrap"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing: run `apt-get install buildah mmdebstrap`", tool)
		}
	}
}

// buildah runs buildah with a storage of its own, which is deleted when the test ends.
type buildah struct{ folder string }

func newBuildah(t *testing.T) buildah {
	t.Helper()
	return buildah{t.TempDir()}
}

func (b buildah) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "buildah", append([]string{
		"--root=" + filepath.Join(b.folder, "storage"), "--runroot=" + filepath.Join(b.folder, "run"),
		"--storage-driver=vfs",
	}, args...)...)
	cmd.Env = append(cmd.Environ(), "BUILDAH_ISOLATION=chroot")
	cmd.Dir = repository
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, stderr.String())
	}
	t.Logf("buildah %s took %v", args[0], time.Since(start).Round(time.Second))
	return strings.TrimSpace(string(out))
}

// builderImage is the name of the image in which the Dockerfiles build the programs.
const builderImage = "localhost/golang"

// makeBuilder makes an image with Debian and the Go toolchain of this machine.
func (b buildah) makeBuilder(t *testing.T) {
	t.Helper()
	debian := filepath.Join(b.folder, "debian.tar")
	cmd := exec.CommandContext(t.Context(), "mmdebstrap", "--variant=essential",
		"--include=ca-certificates", "bookworm", debian)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	container := b.run(t, "from", "scratch")
	b.run(t, "add", "--quiet", container, debian, "/")
	b.run(t, "add", "--quiet", container, goEnv(t, "GOROOT"), "/usr/local/go")
	b.run(t, "config", "--env=PATH=/usr/local/go/bin:/usr/bin:/bin:/usr/sbin:/sbin", container)
	b.run(t, "commit", "--quiet", "--rm", container, builderImage)
}

// build builds the image of a Dockerfile and returns the folder with its content. The build uses
// the caches of Go on this machine.
func (b buildah) build(t *testing.T, file string, d dockerfile.Dockerfile) string {
	t.Helper()
	image := "localhost/" + d.Labels["name"]
	b.run(t, "build", "--quiet", "--pull-never", "--file="+file, "--tag="+image,
		"--build-arg=BUILDER="+builderImage, "--build-arg=BASE=scratch",
		"--volume="+goEnv(t, "GOMODCACHE")+":/root/go/pkg/mod",
		"--volume="+goEnv(t, "GOCACHE")+":/root/.cache/go-build", ".")
	const format = "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}"
	got := b.run(t, "inspect", "--type=image", "--format="+format, image)
	want := fmt.Sprintf("%s [%s]", d.User, d.Entrypoint[0])
	assert.Check(t, is.DeepEqual(want, got), "user and entrypoint of %s", file)
	return b.run(t, "mount", b.run(t, "from", "--pull-never", image))
}

func fileOf(t *testing.T, img v1.Image, path string) []byte {
	t.Helper()
	content := mutate.Extract(img)
	defer content.Close()
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		assert.NilError(t, err, "searching %s", path)
		if "/"+header.Name == path {
			file, err := io.ReadAll(reader)
			assert.NilError(t, err)
			return file
		}
	}
}

// testHelp runs a program of an image as the user of the Dockerfile until it has printed its help.
func testHelp(t *testing.T, folder string, program dockerfile.Program, d dockerfile.Dockerfile) {
	t.Helper()
	user, err := strconv.ParseUint(d.User, 10, 32)
	assert.NilError(t, err)
	var output bytes.Buffer
	cmd := &exec.Cmd{
		Path: program.Path, Dir: "/", Args: []string{program.Path, "--help"},
		Stdout: &output, Stderr: &output,
		SysProcAttr: &syscall.SysProcAttr{
			Chroot: folder, Credential: &syscall.Credential{Uid: uint32(user)},
			Pdeathsig: syscall.SIGKILL,
		},
	}
	err = cmd.Run()
	if err != nil || !strings.Contains(output.String(), filepath.Base(program.Path)) {
		t.Errorf("%s --help: %v\n%s", program.Path, err, output.String())
	}
}
