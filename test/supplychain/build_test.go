//go:build integration

package supplychain

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/hack/images/dockerfile"
)

const repository = "../.."

// TestBuildsAreReproducible compares the programs that `make build` builds with those that the
// Dockerfiles build in another folder, as another user, at another time, from files of another age.
//
// With -short both builds share Go's build cache, so that the test compiles twice only the packages
// that differ: those of this module. Otherwise the second build starts with an empty cache.
func TestBuildsAreReproducible(t *testing.T) {
	t.Parallel()
	images := readDockerfiles(t)
	var packages []string
	for _, image := range images {
		for _, program := range image.Programs {
			packages = append(packages, program.Package)
		}
	}

	// Both copies exist before the first build, so that nobody edits the sources in between.
	first := newPlace(t, "HOME="+t.TempDir(), "USER=first", "LOGNAME=first", "TZ=UTC", "LANG=C")
	second := newPlace(t, "HOME="+t.TempDir(), "USER=second", "LOGNAME=second", "TZ=Asia/Tokyo",
		"LANG=C.UTF-8")
	second.changeFiles(t)
	if !testing.Short() {
		second.env = append(second.env, "GOCACHE="+t.TempDir())
	}

	first.run(t, "make", "build", "BUILDVCS=false", "PROGRAMS="+strings.Join(packages, " "))
	for file, image := range images {
		second.run(t, "bash", "-c", fmt.Sprintf("umask 077; export %s; %s", image.Variables,
			strings.Replace(image.Build, "go build", "go build -o programs/", 1)))
		for _, program := range image.Programs {
			name := program.Built()
			if first.digest(t, filepath.Join("bin", name)) !=
				second.digest(t, filepath.Join("programs", name)) {
				t.Errorf("%s and `make build` build different programs %s: compare the flags of Go in both",
					file, name)
			}
		}
	}
}

// readDockerfiles reads the Dockerfiles of all operators, by their names.
func readDockerfiles(t *testing.T) map[string]dockerfile.Dockerfile {
	t.Helper()
	files, err := filepath.Glob(repository + "/Dockerfile.*")
	assert.Assert(t, err == nil && len(files) != 0, "found Dockerfiles %q: %v", files, err)
	images := map[string]dockerfile.Dockerfile{}
	for _, file := range files {
		if images[filepath.Base(file)], err = dockerfile.Read(file); err != nil {
			t.Fatal(err)
		}
	}
	return images
}

// place is a folder with a copy of the sources, and the environment of the builds in it.
type place struct {
	dir string
	env []string
}

// newPlace copies the Makefile, and the sources that .dockerignore lets into an image. The
// environment contains only the variables, the path of programs, and where Go finds modules and
// results.
func newPlace(t *testing.T, variables ...string) place {
	t.Helper()
	p := place{dir: t.TempDir()}
	args := []string{"-R", "-t", p.dir, "Makefile", "docs"} // the plugin contains a page
	for line := range strings.Lines(readFile(t, ".dockerignore")) {
		if included, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			args = append(args, included)
		}
	}
	cmd := exec.CommandContext(t.Context(), "cp", args...)
	cmd.Dir = repository
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	p.env = append(variables, "PATH="+os.Getenv("PATH"))
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB"} {
		p.env = append(p.env, name+"="+goEnv(t, name))
	}
	return p
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, file))
	assert.NilError(t, err)
	return string(content)
}

func goEnv(t *testing.T, variable string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", variable).Output()
	assert.NilError(t, err)
	return strings.TrimSpace(string(out))
}

// changeFiles changes the times of all files, and appends a comment to each Go file that is not
// part of a command. Go's build cache finds results by the content of the files, so these packages
// are compiled again. The compiler discards the comment. A program contains a digest of the files
// of its command, so these files stay as they are.
func (p place) changeFiles(t *testing.T) {
	t.Helper()
	old := time.Unix(1, 0)
	err := filepath.WalkDir(p.dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		command := strings.HasPrefix(file, filepath.Join(p.dir, "cmd"))
		if filepath.Ext(file) == ".go" && !command {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			content = append(content, "\n// Compiled in "+p.dir+".\n"...)
			if err := os.WriteFile(file, content, 0o600); err != nil {
				return err
			}
		}
		return os.Chtimes(file, old, old)
	})
	assert.NilError(t, err)
}

func (p place) run(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	t.Logf("%s took %v", cmd, time.Since(start).Round(time.Second))
}

func (p place) digest(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(p.dir, file))
	assert.NilError(t, err)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
