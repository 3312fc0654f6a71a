package release

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// olmBundle is a bundle for OLM, in the words of its annotations.
type olmBundle struct {
	Package string `json:"operators.operatorframework.io.bundle.package.v1"`
	Channel string `json:"operators.operatorframework.io.bundle.channel.default.v1"`
	// files are its manifests by name, and metadata is the file with the annotations.
	files    map[string][]byte
	metadata []byte
}

func (o Options) bundles(f flavour.Flavour, images map[string]string) ([]olmBundle, error) {
	addons := "assets/csi-addons/generated/olm"
	if !f.OpenShift() {
		addons = path.Join("assets/csi-addons/generated", string(f), "olm")
	}
	folders, err := filepath.Glob(
		filepath.Join(o.Root, "assets/drivers/*/generated", string(f), "olm"))
	if err != nil {
		return nil, err
	}
	var bundles []olmBundle
	for _, folder := range append(folders, filepath.Join(o.Root, addons)) {
		one, err := o.bundle(folder, images)
		if err != nil {
			return nil, fmt.Errorf("reading the bundle in %s: %w", folder, err)
		}
		bundles = append(bundles, *one)
	}
	return bundles, nil
}

func (o Options) bundle(folder string, images map[string]string) (*olmBundle, error) {
	text, err := os.ReadFile(filepath.Join(folder, "metadata/annotations.yaml"))
	if err != nil {
		return nil, err
	}
	read := struct {
		Annotations olmBundle `json:"annotations"`
	}{Annotations: olmBundle{files: map[string][]byte{}, metadata: text}}
	if err := yaml.Unmarshal(text, &read); err != nil {
		return nil, err
	}
	b := &read.Annotations
	manifests, err := filepath.Glob(filepath.Join(folder, "manifests/*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, file := range manifests {
		text, err := os.ReadFile(file)
		if err == nil {
			b.files[filepath.Base(file)], err = o.released(withImages(text, images), b.Package, images)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// released returns a manifest of a bundle. That of the ClusterServiceVersion gets the version, and
// what it replaces: the release before, or any earlier one.
func (o Options) released(text []byte, name string, images map[string]string) ([]byte, error) {
	var object unstructured.Unstructured
	if err := yaml.Unmarshal(text, &object.Object); err != nil {
		return nil, err
	}
	if object.GetKind() != "ClusterServiceVersion" {
		return text, nil
	}
	object.SetName(name + "." + o.Version)
	annotations := object.GetAnnotations()
	annotations["olm.skipRange"] = "<" + o.number()
	image := annotations["containerImage"]
	annotations["containerImage"] = cmp.Or(images[image], image)
	object.SetAnnotations(annotations)
	fields := map[string]string{"version": o.number()}
	if previous := o.previous(); previous != "" {
		fields["replaces"] = name + "." + previous
	}
	for field, value := range fields {
		if err := unstructured.SetNestedField(object.Object, value, "spec", field); err != nil {
			return nil, err
		}
	}
	return yaml.Marshal(object.Object)
}

// number returns the version without its prefix.
func (o Options) number() string { return strings.TrimPrefix(o.Version, "v") }

// previous returns the highest version in the changelog below that of the release, or nothing.
func (o Options) previous() string {
	text, _ := os.ReadFile(filepath.Join(o.Root, changelog)) // checkRelease has read it
	own, err := version.ParseSemantic(o.Version)
	if err != nil {
		return ""
	}
	var highest *version.Version
	heading := regexp.MustCompile(`(?m)^## (v\S+)$`)
	for _, found := range heading.FindAllStringSubmatch(string(text), -1) {
		one, err := version.ParseSemantic(found[1])
		if err == nil && one.LessThan(own) && (highest == nil || highest.LessThan(one)) {
			highest = one
		}
	}
	if highest == nil {
		return ""
	}
	return "v" + highest.String()
}

// catalog returns a file-based catalog of OLM. It contains the manifests of the bundles, so it
// needs no images of bundles.
func (o Options) catalog(bundles []olmBundle) ([]byte, error) {
	var documents []string
	for _, b := range bundles {
		name := b.Package + "." + o.Version
		entry := map[string]any{"name": name, "skipRange": "<" + o.number()}
		if previous := o.previous(); previous != "" {
			entry["replaces"] = b.Package + "." + previous
		}
		properties := []any{property("olm.package", "packageName", b.Package, "version", o.number())}
		for _, file := range slices.Sorted(maps.Keys(b.files)) {
			manifest, err := yaml.YAMLToJSON(b.files[file])
			if err != nil {
				return nil, err
			}
			properties = append(properties,
				property("olm.bundle.object", "data", base64.StdEncoding.EncodeToString(manifest)))
		}
		for _, blob := range []map[string]any{
			{"schema": "olm.package", "name": b.Package, "defaultChannel": b.Channel},
			{"schema": "olm.channel", "package": b.Package, "name": b.Channel, "entries": []any{entry}},
			{"schema": "olm.bundle", "package": b.Package, "name": name, "properties": properties},
		} {
			text, err := yaml.Marshal(blob)
			if err != nil {
				return nil, err
			}
			documents = append(documents, string(text))
		}
	}
	return []byte(strings.Join(documents, separator)), nil
}

// property returns a property of a bundle with a value of pairs.
func property(kind string, pairs ...string) map[string]any {
	value := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		value[pairs[i]] = pairs[i+1]
	}
	return map[string]any{"type": kind, "value": value}
}
