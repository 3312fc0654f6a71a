// Package images builds and lists the images of everything that runs in the pods of a real node. It
// makes them from this repository, Go modules and Debian packages. Its callers are the command
// node-images and the devcluster.
package images

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// Folder contains the images, below the root of the repository.
const Folder = "bin/node/images"

// Image is an image in a tar file that `ctr images import` reads.
type Image struct {
	// Name is the name with registry and tag, as pods use it.
	Name string
	// File is the path of the tar file.
	File string
}

// List returns the images that the operators and their operands use, and those that a node and
// tests need, in the order of their names. The manifests in the folder root define the names of the
// first. Build writes the files. Images without a recipe, such as those of a new driver, are left
// out.
func List(root string) ([]Image, error) {
	all, _, err := recipesIn(root)
	if err != nil {
		return nil, err
	}
	var images []Image
	for _, r := range all {
		images = append(images, Image{r.image, filepath.Join(root, Folder, r.name+".tar")})
	}
	return images, nil
}

// recipesIn returns the recipes of all images, each with the full name of its image, and the names
// of the images in manifests that have no recipe.
func recipesIn(root string) (all []recipe, missing []string, err error) {
	names, err := namesInManifests(root, "*")
	if err != nil {
		return nil, nil, err
	}
	byName := map[string]recipe{}
	for _, r := range recipes() {
		byName[r.name] = r
	}
	for _, image := range names {
		r, ok := byName[baseName(image)]
		if !ok {
			missing = append(missing, image)
			continue
		}
		r.image = image
		all = append(all, r)
	}
	for _, r := range recipes() {
		if r.image != "" {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b recipe) int { return strings.Compare(a.image, b.image) })
	return all, missing, nil
}

// namesInManifests returns the full names of the images in the Deployments of the operators of
// drivers: their own, and those in the variables that end in _IMAGE. driver may be a pattern.
func namesInManifests(root, driver string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(
		root, "assets/drivers", driver, "generated/standalone/operator/deployment.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s contains no manifests of operators", root)
	}
	var names []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var deployment appsv1.Deployment
		if err := yaml.Unmarshal(content, &deployment); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		for _, container := range deployment.Spec.Template.Spec.Containers {
			names = append(names, fullName(container.Image))
			for _, variable := range container.Env {
				if strings.HasSuffix(variable.Name, "_IMAGE") {
					names = append(names, fullName(variable.Value))
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// fullName returns the name under which kubelet looks for an image.
func fullName(image string) string {
	if !strings.Contains(image, "/") {
		image = "docker.io/library/" + image
	}
	if !strings.Contains(path.Base(image), ":") {
		image += ":latest"
	}
	return image
}

func baseName(image string) string {
	name, _, _ := strings.Cut(path.Base(image), ":")
	return name
}
