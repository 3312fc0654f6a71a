package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// crdSource names CRD files of one module.
type crdSource struct {
	module string
	// folder with the go.mod that knows the module's version, below Builder.Module.
	folder string
	files  []string
}

func crdSources() []crdSource {
	const (
		config   = "config/v1/zz_generated.crd-manifests/"
		operator = "operator/v1/zz_generated.crd-manifests/"
		snapshot = "config/crd/snapshot.storage.k8s.io_"
	)
	return []crdSource{
		{
			module: "github.com/openshift/api",
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
			files: []string{
				snapshot + "volumesnapshotclasses.yaml",
				snapshot + "volumesnapshotcontents.yaml",
				snapshot + "volumesnapshots.yaml",
			},
		},
		{
			module: "github.com/prometheus-operator/prometheus-operator",
			folder: "crd",
			files:  []string{"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"},
		},
	}
}

func (b Builder) copyCRDs(ctx context.Context) error {
	if err := os.RemoveAll(CRDs(b.Out)); err != nil {
		return fmt.Errorf("emptying the CRD folder: %w", err)
	}
	if err := os.MkdirAll(CRDs(b.Out), 0o755); err != nil {
		return fmt.Errorf("making the CRD folder: %w", err)
	}
	for _, source := range crdSources() {
		dir, err := b.download(ctx, source)
		if err != nil {
			return err
		}
		for _, file := range source.files {
			if err := b.copyCRD(filepath.Join(dir, file)); err != nil {
				return err
			}
		}
	}
	return nil
}

// download returns the folder of a module in the module cache.
func (b Builder) download(ctx context.Context, source crdSource) (string, error) {
	cmd := b.goCommand(ctx, filepath.Join(b.Module, source.folder), "mod", "download", "-json", source.module)
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if decodeErr := json.Unmarshal(out, &answer); err == nil {
		err = decodeErr
	}
	if err != nil {
		return "", fmt.Errorf("downloading module %q: %w %s", source.module, err, answer.Error)
	}
	return answer.Dir, nil
}

func (b Builder) copyCRD(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading a CRD: %w", err)
	}
	if err := os.WriteFile(filepath.Join(CRDs(b.Out), filepath.Base(file)), content, 0o644); err != nil {
		return fmt.Errorf("writing a CRD: %w", err)
	}
	return nil
}
