// Package build fills the cache of Kubernetes binaries and CRDs from Go modules.
// The commands build, up and run use it.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	// This pins a module whose CRDs are copied.
	_ "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	// So does this.
	_ "github.com/openshift/api/operator/v1"
)

const kubernetesModule = "k8s.io/kubernetes"

// Builder builds from one Go module into one folder.
type Builder struct {
	// Module is the folder of the devcluster's go.mod.
	Module string
	// Out is the cache.
	Out string
	// Progress receives lines for people.
	Progress io.Writer
}

// CRDs is the folder of CRDs inside a cache.
func CRDs(cache string) string { return filepath.Join(cache, "crds") }

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

// programOrder builds what the others share first, so that progress is even.
func programOrder() []string {
	return []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "etcd", "kwok"}
}

// Ensure builds what is missing or was built from other versions.
func (b Builder) Ensure(ctx context.Context) error {
	key, err := b.key()
	if err != nil {
		return err
	}
	if b.isFresh(key) {
		return nil
	}
	start := time.Now()
	b.say("Building Kubernetes from Go modules into %s (about 5 minutes on two cores, once)", b.Out)
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		return fmt.Errorf("making the cache: %w", err)
	}
	if err := b.copyCRDs(ctx); err != nil {
		return err
	}
	if err := b.buildPrograms(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(b.keyFile(), []byte(key), 0o644); err != nil {
		return fmt.Errorf("marking the cache complete: %w", err)
	}
	b.say("Built in %s", time.Since(start).Round(time.Second))
	return nil
}

func (b Builder) buildPrograms(ctx context.Context) error {
	version, err := b.goList(ctx, b.Module, "-m", "-f", "{{.Version}}", kubernetesModule)
	if err != nil {
		return err
	}
	for _, name := range programOrder() {
		if err := b.buildProgram(ctx, name, version); err != nil {
			return err
		}
	}
	return nil
}

func (b Builder) say(format string, args ...any) {
	fmt.Fprintf(b.Progress, format+"\n", args...)
}

func (b Builder) keyFile() string { return filepath.Join(b.Out, "key") }

// key changes with everything that goes into the cache: the versions, the
// compiler and this recipe.
func (b Builder) key() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH, strings.Join(buildFlags("v"), " "), programs(), crdSources())
	for _, name := range []string{"go.mod", filepath.Join("crd", "go.mod")} {
		content, err := os.ReadFile(filepath.Join(b.Module, name))
		if err != nil {
			return "", fmt.Errorf("reading the versions to build: %w", err)
		}
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func (b Builder) isFresh(key string) bool {
	found, err := os.ReadFile(b.keyFile())
	if err != nil || string(found) != key {
		return false
	}
	for name := range programs() {
		if _, err := os.Stat(filepath.Join(b.Out, name)); errors.Is(err, os.ErrNotExist) {
			return false
		}
	}
	return true
}
