package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/hack/images/image"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// changelog is the name of the file with a section for each release.
const changelog = "CHANGELOG.md"

// sums is the name of the file with the digest of each other file of a release.
const sums = "SHA256SUMS"

// prerequisites starts the names of the files with what bundles for OLM cannot contain.
const prerequisites = "olm-prerequisites-"

// drivers are the folders of drivers with an operator.
func drivers() []string { return []string{"cinder", "manila"} }

// kustomizations returns the folders of the kustomizations by the name of the file made from each.
func kustomizations() map[string]string {
	folders := map[string]string{
		"crds.yaml": "crds", "common.yaml": "namespace", "snapshots.yaml": "snapshots",
		"monitoring.yaml":      "monitoring/kubernetes",
		"csi-addons-crds.yaml": "csi-addons/crd", "csi-addons.yaml": "csi-addons/install/cinder-manila",
		"csi-addons-kubernetes.yaml":      "csi-addons/install/kubernetes",
		"olm-kubernetes-csi-addons.yaml":  "csi-addons/generated/kubernetes/olm/prerequisites",
		prerequisites + "csi-addons.yaml": "csi-addons/generated/olm/prerequisites",
	}
	for _, driver := range drivers() {
		generated := path.Join("drivers", driver, "generated")
		folders[driver+".yaml"] = path.Join(generated, "kubernetes/operator")
		folders[prerequisites+driver+".yaml"] = path.Join(generated, "standalone/olm/prerequisites")
	}
	return folders
}

// Manifests returns the files to apply with kubectl by their names. They contain a reference in
// place of the name of each image.
func (o Options) Manifests(ctx context.Context, images map[string]string,
) (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, folder := range kustomizations() {
		text, err := o.kustomize(ctx, path.Join("assets", folder))
		if err != nil {
			return nil, err
		}
		files[name] = withImages(text, images)
	}
	files["images.txt"] = imagesIn(files)
	var err error
	if files[prerequisites+"common.yaml"], err = separate(files); err != nil {
		return nil, err
	}
	archive, err := o.chart(images)
	if err != nil {
		return nil, err
	}
	if archive != nil {
		files["openstack-csi-"+o.number()+".tgz"] = archive
	}
	return files, errors.Join(o.addOLM(files, images, flavour.Standalone, ""),
		o.addOLM(files, images, flavour.Kubernetes, "-kubernetes"))
}

// addOLM adds the catalog for OLM in clusters of a flavour, and an archive of the bundles in it for
// other catalogs. suffix ends their names.
func (o Options) addOLM(
	files map[string][]byte, images map[string]string, f flavour.Flavour, suffix string,
) error {
	bundles, err := o.bundles(f, images)
	if err != nil {
		return err
	}
	if files["catalog"+suffix+".yaml"], err = o.catalog(bundles); err != nil {
		return err
	}
	var archived []image.File
	for _, b := range bundles {
		for _, name := range slices.Sorted(maps.Keys(b.files)) {
			archived = append(archived, image.File{
				Path: path.Join("/", b.Package, "manifests", name), Mode: 0o644, Content: b.files[name],
			})
		}
		archived = append(archived, image.File{
			Path: path.Join("/", b.Package, "metadata/annotations.yaml"), Mode: 0o644,
			Content: b.metadata,
		})
	}
	files["olm-bundles"+suffix+".tar.gz"], err = image.TarGz(archived, time.Unix(0, 0).UTC())
	return err
}

// files writes the files to apply with kubectl, the section of the changelog, and the digests of
// all files in the folder. They name the images by the digests of the layouts in the folder.
func (o Options) files(ctx context.Context) error {
	images, err := o.images()
	if err != nil {
		return err
	}
	written, err := o.Manifests(ctx, images)
	if err != nil {
		return err
	}
	if written[changelog], err = o.section(); err != nil {
		return err
	}
	for name, text := range written {
		if err := os.WriteFile(filepath.Join(o.Output, name), text, 0o644); err != nil {
			return err
		}
	}
	return o.writeSums()
}

// images returns the references of the images by their names: those of the layouts in the folder.
func (o Options) images() (map[string]string, error) {
	indexes, err := filepath.Glob(filepath.Join(o.Output, "*", "index.json"))
	images := map[string]string{}
	for _, index := range indexes {
		folder := filepath.Dir(index)
		found, err := layout.ImageIndexFromPath(folder)
		if err != nil {
			return nil, err
		}
		manifest, err := found.IndexManifest()
		if err != nil {
			return nil, err
		}
		name := filepath.Base(folder)
		images[name] = o.Registry + "/" + name + "@" + manifest.Manifests[0].Digest.String()
	}
	return images, err
}

func (o Options) kustomize(ctx context.Context, folder string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, o.Kubectl, "kustomize", filepath.Join(o.Root, folder))
	text, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("building %s with kubectl: %w", folder, err)
	}
	return text, nil
}

func withImages(text []byte, images map[string]string) []byte {
	field := regexp.MustCompile(`(?m)^( *(?:- )?image: )(\S+)$`)
	return field.ReplaceAllFunc(text, func(line []byte) []byte {
		parts := field.FindSubmatch(line)
		if reference, ok := images[string(parts[2])]; ok {
			return append(slices.Clone(parts[1]), reference...)
		}
		return line
	})
}

// imagesIn returns a line for each image that an object of the files names, also in a variable of
// an operator.
func imagesIn(files map[string][]byte) []byte {
	lines := map[string]bool{}
	field := regexp.MustCompile(`(?m)(?:_IMAGE\n +value|^ *(?:- )?image): (\S+)$`)
	for _, text := range files {
		for _, match := range field.FindAllSubmatch(text, -1) {
			lines[string(match[1])+"\n"] = true
		}
	}
	return []byte(strings.Join(slices.Sorted(maps.Keys(lines)), ""))
}

const separator = "---\n"

// separate removes the objects that all drivers need from their prerequisites, and returns them: to
// delete the file of one driver must not delete what the others use. Such objects must be equal.
func separate(files map[string][]byte) ([]byte, error) {
	counts, texts := map[string]int{}, map[string]string{}
	for _, driver := range drivers() {
		for object := range strings.SplitSeq(string(files[prerequisites+driver+".yaml"]), separator) {
			name, err := identity(object)
			if err != nil {
				return nil, err
			}
			if counts[name]++; counts[name] > 1 && texts[name] != object {
				return nil, fmt.Errorf("the drivers have different objects %s", name)
			}
			texts[name] = object
		}
	}
	var common []string
	for _, driver := range drivers() {
		var own []string
		for object := range strings.SplitSeq(string(files[prerequisites+driver+".yaml"]), separator) {
			name, _ := identity(object) // it was read above
			switch {
			case counts[name] < len(drivers()):
				own = append(own, object)
			case !slices.Contains(common, object):
				common = append(common, object)
			}
		}
		files[prerequisites+driver+".yaml"] = []byte(strings.Join(own, separator))
	}
	return []byte(strings.Join(common, separator)), nil
}

func identity(object string) (string, error) {
	var read struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	err := yaml.Unmarshal([]byte(object), &read)
	return strings.Join([]string{
		read.APIVersion, read.Kind, read.Metadata.Namespace, read.Metadata.Name,
	}, " "), err
}

// section returns the section of the changelog about the version.
func (o Options) section() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(o.Root, changelog))
	if err != nil {
		return nil, err
	}
	_, section, found := strings.Cut("\n"+string(text), "\n## "+o.Version+"\n")
	if !found {
		return nil, fmt.Errorf("%s has no section %q: write what users get", changelog,
			"## "+o.Version)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return []byte("# " + o.Version + "\n" + strings.TrimRight(section, "\n") + "\n"), nil
}

// writeSums writes the digests of all files that users download: the layouts have digests of their
// own.
func (o Options) writeSums() error {
	digests := map[string][]byte{}
	entries, err := os.ReadDir(o.Output)
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == sums {
			continue
		}
		content, err := fs.ReadFile(os.DirFS(o.Output), entry.Name())
		if err != nil {
			return err
		}
		digest := sha256.Sum256(content)
		digests[entry.Name()] = digest[:]
	}
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		fmt.Fprintf(&text, "%x  %s\n", digests[name], name)
	}
	return errors.Join(err, os.WriteFile(filepath.Join(o.Output, sums), text.Bytes(), 0o644))
}
