package images

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const root = "../../.."

func TestEveryImageOfManilaAndCinderHasARecipe(t *testing.T) {
	t.Parallel()
	images, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, image := range images {
		names = append(names, image.Name)
	}
	wanted := []string{
		"docker.io/library/manila-csi-driver-operator:latest", "registry.k8s.io/pause:3.10.1",
	}
	for _, driver := range []string{"manila", "cinder"} {
		inManifests, err := namesInManifests(root, driver)
		if err != nil {
			t.Fatal(err)
		}
		wanted = append(wanted, inManifests...)
	}
	for _, want := range wanted {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %q", want, names)
		}
	}
}

func TestEveryRecipeMakesAnImage(t *testing.T) {
	t.Parallel()
	images, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	var made, want []string
	for _, image := range images {
		made = append(made, strings.TrimSuffix(filepath.Base(image.File), ".tar"))
	}
	for _, r := range recipes() {
		want = append(want, r.name)
	}
	slices.Sort(made)
	slices.Sort(want)
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("(-recipes +images):\n%s", diff)
	}
}

// Otherwise a cluster that is not OpenShift runs programs that no test runs.
func TestDefaultImagesAreTheVersionsOnRealNodes(t *testing.T) {
	t.Parallel()
	versions, err := os.ReadFile("programs/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := recipesIn(root)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, r := range all {
		module, _, found := strings.Cut(r.module, "/cmd/")
		if !found { // a stand-in, an operator or an image of Kubernetes' tests
			continue
		}
		compared++
		_, tag, _ := strings.Cut(filepath.Base(r.image), ":")
		if !strings.Contains(string(versions), "\t"+module+" "+tag+" ") {
			t.Errorf("programs/go.mod contains another version of %s than %s", module, r.image)
		}
	}
	if compared != 7 {
		t.Errorf("compared %d images, want four sidecars, two drivers and snapshot-controller", compared)
	}
}

func TestImageWithoutRecipeIsNamed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "assets/drivers/demo/generated/standalone/operator/deployment.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	const deployment = "spec: {template: {spec: {containers: [{image: demo/unknown}]}}}"
	if err := os.WriteFile(file, []byte(deployment), 0o600); err != nil {
		t.Fatal(err)
	}
	_, missing, err := recipesIn(folder)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"demo/unknown:latest"}, missing); diff != "" {
		t.Errorf("images without a recipe (-want +got):\n%s", diff)
	}
}

func TestUnchangedImageIsNotBuiltAgain(t *testing.T) {
	t.Parallel()
	var progress strings.Builder
	program := filepath.Join(t.TempDir(), "pause")
	b := builder{root: t.TempDir(), progress: &progress}
	r := recipe{name: "pause", image: "registry.k8s.io/pause:3.10.1", path: "/pause"}
	file := filepath.Join(b.root, Folder, "pause.tar")
	for _, step := range []struct {
		program string
		built   bool
	}{{"first", true}, {"first", false}, {"second", true}} {
		if err := os.WriteFile(program, []byte(step.program), 0o600); err != nil {
			t.Fatal(err)
		}
		progress.Reset()
		if err := b.write(r, []string{program}, "1 of 1"); err != nil {
			t.Fatal(err)
		}
		if built := progress.Len() > 0; built != step.built {
			t.Errorf("with the %s program the image was built: %t", step.program, built)
		}
	}
	tag, err := name.NewTag(r.image)
	if err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/pause"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entrypoint (-want +got):\n%s", diff)
	}
}

func TestMissingToolIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	b := builder{folder: t.TempDir(), progress: &strings.Builder{}}
	_, err := b.debian(t.Context(), tools)
	if err == nil || !strings.Contains(err.Error(), "apt-get install mmdebstrap") {
		t.Errorf("error %v", err)
	}
}
