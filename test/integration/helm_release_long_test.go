//go:build integration && long && helm

package integration

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// TestHelmInstallsFromRegistry pushes the chart of a release as `make release` does, twice, and
// installs it from the registry.
func TestHelmInstallsFromRegistry(t *testing.T) {
	t.Parallel()
	h := startHelm(t, "helm4")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://") + "/csi"
	var digests []string
	for range 2 {
		h.writeRelease("v1.0.0", h.release)
		output, err := guide.Output(h.ctx(), h.pushes(address), h.variables()...)
		h.must(err)
		digests = append(digests, regexp.MustCompile(`Digest: .*`).FindString(output))
	}
	assert.Check(t, digests[0] != "" && digests[0] == digests[1], "%q", digests)
	from := " oci://" + address + "/openstack-csi --version=1.0.0 --plain-http"
	for _, helm := range helms() {
		folder := t.TempDir()
		h.run(helm + " pull" + from + " --destination=" + folder)
		h.run("cmp " + folder + `/openstack-csi-1.0.0.tgz "$RELEASE/openstack-csi-1.0.0.tgz"`)
		h.run(helm + " install openstack-csi" + from + " --namespace=openstack-csi " +
			"--create-namespace --set=manila.enabled=true,clusterID=mine")
		h.run("kubectl get maniladrivers " + manilaDriver)
		h.run(helm + " uninstall openstack-csi --namespace=openstack-csi")
	}
}

// pushes returns the commands with which `make release` pushes the chart, here without TLS.
func (h *helmCluster) pushes(address string) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	h.must(err)
	_, commands, found := strings.Cut(string(text), "\n\ttouch --date=@0 ")
	commands, _, _ = strings.Cut(commands, "\n\n")
	assert.Check(h.t, found && strings.Contains(commands, "helm4 push"), commands)
	words := strings.NewReplacer("bin/release", h.release, "bin/tools/helm4", "helm",
		"$(if $(PUSH),", "", "'oci://$(PUSH)')", "oci://"+address+" --plain-http")
	return "touch --date=@0 " + words.Replace(commands)
}

// TestHelmChartNamesTheImagesOfTheRelease compares the images of all objects of the chart with
// images.txt, also after its images were copied as docs/helm.md says.
func TestHelmChartNamesTheImagesOfTheRelease(t *testing.T) {
	t.Parallel()
	k := &plainKubernetes{scope: &scope{t: t}, release: t.TempDir()}
	k.writeRelease("v1.0.0", k.release)
	text, err := os.ReadFile(filepath.Join(k.release, "images.txt"))
	k.must(err)
	want := strings.Fields(string(text))
	assert.Check(t, len(want) > 10, "%q", want)
	const mirror = "mirror.example.com:5000/copies"
	var copies []string
	for _, image := range want {
		_, path, _ := strings.Cut(image, "/")
		copies = append(copies, mirror+"/"+path)
	}
	slices.Sort(copies)
	for name, helm := range helms() {
		command := helm + " template " + filepath.Join(k.release, "openstack-csi-1.0.0.tgz") +
			" --kube-version=1.36.0 --set=manila.enabled=true,cinder.enabled=true," +
			"csiAddons.enabled=true,snapshotController.enabled=true,monitoring.enabled=true"
		for option, want := range map[string][]string{"": want, ",images.mirror=" + mirror: copies} {
			output, err := guide.Output(t.Context(), command+option)
			k.must(err)
			objects, err := decoded(output)
			k.must(err)
			var found []string
			for _, object := range objects {
				found = append(found, imagesIn(object.Object)...)
			}
			slices.Sort(found)
			assert.Check(t, is.DeepEqual(want, slices.Compact(found)), "%s with %q", name, option)
		}
	}
}

// imagesIn returns the images that fields of a value and variables of containers name.
func imagesIn(value any) (images []string) {
	switch value := value.(type) {
	case map[string]any:
		for name, child := range value {
			variable, _ := value["name"].(string)
			text, ok := child.(string)
			if ok && (name == "image" || name == "value" && strings.HasSuffix(variable, "_IMAGE")) {
				images = append(images, text)
			}
			images = append(images, imagesIn(child)...)
		}
	case []any:
		for _, child := range value {
			images = append(images, imagesIn(child)...)
		}
	}
	return images
}
