package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// source names manifests that are copied from one module.
type source struct {
	module string
	// in is the folder of the go.mod that defines the module's version, below Builder.Repository.
	in string
	// to returns the folder for the files inside a cache.
	to    func(cache string) string
	files []string
}

// CRDs returns the folder of CRDs inside a cache.
func CRDs(cache string) string { return filepath.Join(cache, "manifests", "crds") }

// Stages returns the folder of kwok's stages inside a cache.
func Stages(cache string) string { return filepath.Join(cache, "manifests", "stages") }

func sources() []source {
	const (
		config   = "config/v1/zz_generated.crd-manifests/"
		operator = "operator/v1/zz_generated.crd-manifests/"
		snapshot = "config/crd/snapshot.storage.k8s.io_"
		stage    = "kustomize/stage/"
	)
	return []source{
		{
			module: "github.com/openshift/api",
			to:     CRDs,
			files: []string{
				config + "0000_03_config-operator_01_proxies.crd.yaml",
				config + "0000_10_config-operator_01_apiservers-Default.crd.yaml",
				config + "0000_10_config-operator_01_infrastructures-Default.crd.yaml",
				operator + "0000_50_csi-driver_01_clustercsidrivers-Default.crd.yaml",
				operator + "0000_50_storage_01_storages.crd.yaml",
			},
		},
		{
			module: "github.com/kubernetes-csi/external-snapshotter/client/v8",
			to:     CRDs,
			files: []string{
				snapshot + "volumesnapshotclasses.yaml",
				snapshot + "volumesnapshotcontents.yaml",
				snapshot + "volumesnapshots.yaml",
			},
		},
		{
			module: "github.com/prometheus-operator/prometheus-operator",
			in:     "test/devcluster/crd",
			to:     CRDs,
			files:  []string{"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"},
		},
		{
			// The fast stages: nodes are ready at once, pods run as soon as they are scheduled and are
			// removed as soon as they are deleted.
			module: "sigs.k8s.io/kwok",
			in:     programsFolder,
			to:     Stages,
			files: []string{
				stage + "node/fast/node-initialize.yaml",
				stage + "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
				stage + "pod/fast/pod-ready.yaml",
				stage + "pod/fast/pod-complete.yaml",
				stage + "pod/fast/pod-delete.yaml",
			},
		},
	}
}

func (b Builder) manifestsKeyFile() string { return filepath.Join(b.Out, "manifests", "key") }

func (b Builder) hasManifests() (bool, error) {
	key, err := b.manifestsKey()
	return err == nil && hasKey(b.manifestsKeyFile(), key), err
}

// copyManifests copies all manifests, and writes the key last.
func (b Builder) copyManifests(ctx context.Context) error {
	key, err := b.manifestsKey()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Dir(b.manifestsKeyFile())); err != nil {
		return fmt.Errorf("removing the previous manifests: %w", err)
	}
	for _, s := range sources() {
		if err := b.copySource(ctx, s); err != nil {
			return err
		}
	}
	return writeKey(b.manifestsKeyFile(), key)
}

// manifestsKey changes with the list of files and with the version of each module.
func (b Builder) manifestsKey() (string, error) {
	var parts []any
	for _, s := range sources() {
		content, err := os.ReadFile(b.goMod(s.in))
		if err != nil {
			return "", fmt.Errorf("reading the version of module %q: %w", s.module, err)
		}
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, s.module+" v") {
				parts = append(parts, s.files, line)
			}
		}
	}
	return hash(parts...), nil
}

func (b Builder) copySource(ctx context.Context, s source) error {
	if err := os.MkdirAll(s.to(b.Out), 0o755); err != nil {
		return fmt.Errorf("making the folder of manifests: %w", err)
	}
	dir, err := b.download(ctx, s)
	if err != nil {
		return err
	}
	for _, file := range s.files {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return fmt.Errorf("reading a manifest: %w", err)
		}
		err = os.WriteFile(filepath.Join(s.to(b.Out), filepath.Base(file)), content, 0o644)
		if err != nil {
			return fmt.Errorf("writing a manifest: %w", err)
		}
	}
	return nil
}

// download returns the folder of a module in the module cache.
func (b Builder) download(ctx context.Context, s source) (string, error) {
	out, err := b.goCommand(ctx, s.in, "mod", "download", "-json", s.module)
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal([]byte(out), &module)
	}
	if err != nil {
		return "", fmt.Errorf("downloading module %q: %w", s.module, err)
	}
	return module.Dir, nil
}
