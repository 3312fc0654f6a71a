package release

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/hack/images/image"
)

const chartFolder = "assets/helm/generated/openstack-csi"

// chart returns the archive of the Helm chart with the version and the images of the release, or
// nothing if the sources have no chart.
func (o Options) chart(images map[string]string) ([]byte, error) {
	digests := map[string]string{}
	for name, reference := range images {
		_, digests[name], _ = strings.Cut(reference, "@")
	}
	encoded, err := json.Marshal(digests)
	if err != nil {
		return nil, err
	}
	// The fields of the files that a release sets.
	fields := map[string]map[string]string{
		"Chart.yaml":  {"version: ": o.number(), "appVersion: ": o.number()},
		"values.yaml": {"  registry: ": `"` + o.Registry + `"`, "  digests: ": string(encoded)},
	}
	var files []image.File
	root := os.DirFS(filepath.Join(o.Root, chartFolder))
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		for field, value := range fields[name] {
			line := regexp.MustCompile("(?m)^" + field + ".*$")
			content = line.ReplaceAllLiteral(content, []byte(field+value))
		}
		files = append(files, image.File{
			Path: path.Join("/openstack-csi", name), Mode: 0o644, Content: content,
		})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return image.TarGz(files, time.Unix(0, 0).UTC())
}
