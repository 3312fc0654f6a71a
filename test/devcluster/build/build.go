// Package build fills a cache with what the devcluster takes from Go modules: the binaries of
// Kubernetes, CRDs, and the stages of kwok. The commands build, up and run call it.
package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	kubernetesModule = "k8s.io/kubernetes"
	// programsFolder contains the Go module that defines the versions of all programs.
	programsFolder = "test/devcluster/kubernetes"
)

// Builder builds from the Go modules of this repository into one folder.
type Builder struct {
	// Repository is the root of the source tree.
	Repository string
	// Out is the cache.
	Out string
	// Progress receives lines for people.
	Progress io.Writer
}

// programs are the packages by the name of their binary.
func programs() map[string]string {
	return map[string]string{
		"etcd":                    "go.etcd.io/etcd/server/v3",
		"kube-apiserver":          kubernetesModule + "/cmd/kube-apiserver",
		"kube-controller-manager": kubernetesModule + "/cmd/kube-controller-manager",
		"kube-scheduler":          kubernetesModule + "/cmd/kube-scheduler",
		"kubectl":                 kubernetesModule + "/cmd/kubectl",
		"kwok":                    "sigs.k8s.io/kwok/cmd/kwok",
	}
}

// Ensure fills the cache with everything that is missing or comes from another version.
func (b Builder) Ensure(ctx context.Context) error {
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		return fmt.Errorf("making the cache: %w", err)
	}
	if ok, err := b.hasManifests(); err != nil {
		return err
	} else if !ok {
		if err := b.copyManifests(ctx); err != nil {
			return err
		}
	}
	if ok, err := b.hasPrograms(); err != nil || ok {
		return err
	}
	start := time.Now()
	b.say("Building Kubernetes from Go modules into %s (about 5 minutes on two cores, once)", b.Out)
	if err := b.buildPrograms(ctx); err != nil {
		return err
	}
	b.say("Built in %s", time.Since(start).Round(time.Second))
	return nil
}

// buildPrograms builds all programs, which appear under their names only when they are complete. It
// writes the key last, so that an interrupted build is repeated.
func (b Builder) buildPrograms(ctx context.Context) error {
	key, err := b.programsKey()
	if err != nil {
		return err
	}
	version, err := b.goCommand(ctx, programsFolder, "list", "-m", "-f", "{{.Version}}",
		kubernetesModule)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(b.Out, "build")
	if err != nil {
		return fmt.Errorf("creating the folder of the build: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	args := append([]string{"build", "-o", folder + "/"}, buildFlags(strings.TrimSpace(version))...)
	args = append(args, slices.Sorted(maps.Values(programs()))...)
	if _, err := b.goCommand(ctx, programsFolder, args...); err != nil {
		return err
	}
	for name, pkg := range programs() {
		if err := os.Rename(filepath.Join(folder, binary(pkg)), filepath.Join(b.Out, name)); err != nil {
			return fmt.Errorf("moving %s into the cache: %w", name, err)
		}
	}
	return writeKey(b.programsKeyFile(), key)
}

// binary returns the name that go build gives to a package: the last element of the path that is no
// version.
func binary(pkg string) string {
	if name := path.Base(pkg); name != "v3" {
		return name
	}
	return path.Base(path.Dir(pkg))
}

func (b Builder) say(format string, args ...any) {
	fmt.Fprintf(b.Progress, format+"\n", args...)
}

func (b Builder) goMod(folder string) string {
	return filepath.Join(b.Repository, folder, "go.mod")
}

func (b Builder) programsKeyFile() string { return filepath.Join(b.Out, "kubernetes.key") }

// programsKey changes with everything that the programs depend on: versions, compiler and build
// flags.
func (b Builder) programsKey() (string, error) {
	versions, err := os.ReadFile(b.goMod(programsFolder))
	if err != nil {
		return "", fmt.Errorf("reading the versions of the programs: %w", err)
	}
	return hash(runtime.Version(), runtime.GOARCH, buildFlags("v"), programs(), string(versions)), nil
}

func (b Builder) hasPrograms() (bool, error) {
	key, err := b.programsKey()
	if err != nil || !hasKey(b.programsKeyFile(), key) {
		return false, err
	}
	for name := range programs() {
		if _, err := os.Stat(filepath.Join(b.Out, name)); err != nil {
			return false, nil //nolint:nilerr // a program that cannot be read is built again
		}
	}
	return true, nil
}

func hash(values ...any) string {
	sum := sha256.Sum256(fmt.Appendln(nil, values...))
	return hex.EncodeToString(sum[:])
}

func hasKey(file, key string) bool {
	found, err := os.ReadFile(file)
	return err == nil && string(found) == key
}

func writeKey(file, key string) error {
	if err := os.WriteFile(file, []byte(key), 0o644); err != nil {
		return fmt.Errorf("marking the cache complete: %w", err)
	}
	return nil
}

// versionPackage contains the version that a Kubernetes component reports.
const versionPackage = "k8s.io/component-base/version"

func buildFlags(version string) []string {
	major, minor := majorMinor(version)
	variables := []string{
		"gitVersion=" + version,
		"gitMajor=" + major,
		"gitMinor=" + minor,
		"gitTreeState=archive",
	}
	flags := "-s -w"
	for _, v := range variables {
		flags += " -X " + versionPackage + "." + v
	}
	return []string{"-trimpath", "-buildvcs=false", "-ldflags=" + flags}
}

func majorMinor(version string) (string, string) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return "", ""
	}
	return parts[0], parts[1]
}

// goCommand runs the go tool in a folder of the repository and returns its output. The binaries are
// static, so that they do not depend on the C library of this machine.
func (b Builder) goCommand(ctx context.Context, folder string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.Repository, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running go %s: %w\n%s%s", strings.Join(args[:2], " "), err, out,
			stderr.Bytes())
	}
	return string(out), nil
}
