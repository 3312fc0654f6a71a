package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/yaml"
)

// kubectl prints the objects of a kustomization. Two drivers share the namespace.
const kubectl = `#!/bin/sh
case "$2" in
*/drivers/*/standalone/olm/prerequisites)
	driver=${2#*/drivers/}
	printf 'kind: Namespace\nmetadata:\n  name: shared\n---\n'
	printf 'kind: Deployment\nmetadata:\n  name: %s\nspec:\n' "${driver%%/*}"
	printf '  image: demo-operator\n  env:\n  - name: A_IMAGE\n    value: quay.io/a:v1\n' ;;
*) printf 'kind: Other\nmetadata:\n  name: %s\n' "${2##*/}" ;;
esac
`

func buildRelease(t *testing.T, root, output string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kubectl")
	write(t, program, kubectl)
	assert.NilError(t, os.Chmod(program, 0o700))
	build(t, "--root="+root, "--output="+output, "--version=v1.2.3", "--platforms=linux/amd64",
		"--registry=quay.io/me", "--kubectl="+program)
	return read(t, output, "SHA256SUMS")
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	assert.NilError(t, err)
	return string(text)
}

// withPlugin adds a plugin, a bundle for OLM and a changelog to sources.
func withPlugin(t *testing.T, root string) {
	t.Helper()
	const folder = "cmd/kubectl-openstack_csi/"
	write(t, filepath.Join(root, folder, "krew.yaml"), read(t, "../../"+folder+"krew.yaml"))
	write(t, filepath.Join(root, folder, "main.go"), "package main\nfunc main() {}\n")
	write(t, filepath.Join(root, folder, "kubectl_complete-openstack_csi"), "#!/bin/sh\n")
	write(t, filepath.Join(root, "LICENSE"), "Use it.\n")
	for _, bundle := range []string{"olm", "kubernetes/olm"} {
		bundle = filepath.Join(root, "assets/csi-addons/generated", bundle)
		write(t, filepath.Join(bundle, "metadata/annotations.yaml"), `annotations:
  operators.operatorframework.io.bundle.channel.default.v1: alpha
  operators.operatorframework.io.bundle.package.v1: demo
`)
		write(t, filepath.Join(bundle, "manifests/csv.yaml"), `kind: ClusterServiceVersion
metadata:
  annotations: {containerImage: demo-operator}
spec:
  relatedImages:
  - image: demo-operator
`)
	}
	const chart = "assets/helm/generated/openstack-csi/"
	write(t, filepath.Join(root, chart, "Chart.yaml"),
		"name: demo\nversion: 0.1.0\nappVersion: 0.1.0\n")
	write(t, filepath.Join(root, chart, "values.yaml"), "images:\n  registry: \"\"\n  digests: {}\n")
	write(t, filepath.Join(root, "CHANGELOG.md"),
		"# Changes\n\n## v1.3.0\n\nNew.\n\n## v1.2.3\n\nMore.\n\n## v0.9.1\n\nOld.\n\n## v1.0.0\n")
}

// Two builds of one commit are equal, and the files name the images by their digests.
func TestReleaseContainsTheFilesToInstall(t *testing.T) {
	t.Parallel()
	root, output := sources(t), t.TempDir()
	withPlugin(t, root)
	digests := buildRelease(t, root, output)
	assert.Check(t, is.DeepEqual(digests, buildRelease(t, root, t.TempDir())), "digests of two builds")
	checkFiles(t, output, digests)
	checkPlugin(t, output)
	checkCatalog(t, output)
	checkChart(t, output)
}

func checkFiles(t *testing.T, output, digests string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	img := find(t, readLayout(t, filepath.Join(output, "demo-operator")), "linux/amd64")
	extract(t, img, "usr/bin/demo-operator", program)
	assert.Check(t, strings.Contains(read(t, program), "v1.2.3"),
		"the program in the image does not contain the version of the release")
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--quiet", "SHA256SUMS")
	check.Dir = output
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("checking the digests: %v\n%s", err, out)
	}
	image := "quay.io/me/demo-operator@" + digestOf(t, output) + "\n"
	want := "kind: Deployment\nmetadata:\n  name: cinder\nspec:\n  image: " + image +
		"  env:\n  - name: A_IMAGE\n    value: quay.io/a:v1\n"
	for file, want := range map[string]string{
		"olm-prerequisites-cinder.yaml": want,
		"olm-prerequisites-manila.yaml": strings.Replace(want, "cinder", "manila", 1),
		"olm-prerequisites-common.yaml": "kind: Namespace\nmetadata:\n  name: shared\n",
		"common.yaml":                   "kind: Other\nmetadata:\n  name: namespace\n",
		"crds.yaml":                     "kind: Other\nmetadata:\n  name: crds\n",
		"images.txt":                    "quay.io/a:v1\n" + image,
		"CHANGELOG.md":                  "# v1.2.3\n\nMore.\n",
	} {
		if diff := cmp.Diff(want, read(t, output, file)); diff != "" || !strings.Contains(digests, file) {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// The manifest names each archive with its digest.
func checkPlugin(t *testing.T, output string) {
	t.Helper()
	var manifest struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	text := read(t, output, "openstack-csi.yaml")
	assert.NilError(t, yaml.Unmarshal([]byte(text), &manifest))
	assert.Assert(t, manifest.Spec.Version == "v1.2.3" && len(manifest.Spec.Platforms) == 5,
		"the manifest is:\n%s", text)
	for _, platform := range manifest.Spec.Platforms {
		archive := read(t, output, path.Base(platform.URI))
		assert.Check(t, is.Equal(fmt.Sprintf("%x", sha256.Sum256([]byte(archive))), platform.SHA256),
			"%s has the digest", platform.URI)
		want := platform.Bin + "\nkubectl_complete-openstack_csi\nLICENSE\n"
		assert.Check(t, is.Equal(listed(t, platform.URI, archive), want), platform.URI)
	}
}

// listed returns the names of the files in an archive, each with a line end.
func listed(t *testing.T, name, archive string) string {
	t.Helper()
	if strings.HasSuffix(name, ".zip") {
		files, err := zip.NewReader(strings.NewReader(archive), int64(len(archive)))
		assert.NilError(t, err)
		var names string
		for _, file := range files.File {
			names += file.Name + "\n"
		}
		return names
	}
	list := exec.CommandContext(t.Context(), "tar", "-tz")
	list.Stdin = strings.NewReader(archive)
	names, err := list.Output()
	assert.NilError(t, err)
	return string(names)
}

// Each version replaces the one before, and updates also skip versions.
func checkCatalog(t *testing.T, output string) {
	t.Helper()
	image := "quay.io/me/demo-operator@" + digestOf(t, output)
	type blob struct {
		Name           string
		DefaultChannel string              `json:"defaultChannel"`
		Entries        []map[string]string `json:"entries"`
		Properties     []struct {
			Value map[string]string
		}
	}
	var got []blob
	for text := range strings.SplitSeq(read(t, output, "catalog.yaml"), "---\n") {
		var one blob
		assert.NilError(t, yaml.Unmarshal([]byte(text), &one))
		got = append(got, one)
	}
	if len(got) != 3 || got[0].Name != "demo" || got[0].DefaultChannel != "alpha" ||
		fmt.Sprint(got[1].Entries) != "[map[name:demo.v1.2.3 replaces:demo.v1.0.0 skipRange:<1.2.3]]" ||
		len(got[2].Properties) != 2 || got[2].Properties[0].Value["version"] != "1.2.3" {
		t.Fatalf("the catalog is %+v", got)
	}
	manifest, err := base64.StdEncoding.DecodeString(got[2].Properties[1].Value["data"])
	assert.NilError(t, err)
	want := `{"kind":"ClusterServiceVersion","metadata":{"annotations":{"containerImage":"` + image +
		`","olm.skipRange":"\u003c1.2.3"},"name":"demo.v1.2.3"},"spec":{"relatedImages":[{"image":"` +
		image + `"}],"replaces":"demo.v1.0.0","version":"1.2.3"}}`
	assert.Check(t, is.DeepEqual(want, string(manifest)), "ClusterServiceVersion")
	const names = "demo/\ndemo/manifests/\ndemo/manifests/csv.yaml\ndemo/metadata/\n" +
		"demo/metadata/annotations.yaml\n"
	assert.Check(t, is.DeepEqual(names, listed(t, "", read(t, output, "olm-bundles.tar.gz"))),
		"bundles")
}

func checkChart(t *testing.T, output string) {
	t.Helper()
	unpack := exec.CommandContext(t.Context(), "tar", "-xOzf", "openstack-csi-1.2.3.tgz")
	unpack.Dir = output
	got, err := unpack.Output()
	want := "name: demo\nversion: 1.2.3\nappVersion: 1.2.3\n" + `images:
  registry: "quay.io/me"
  digests: {"demo-operator":"` + digestOf(t, output) + "\"}\n"
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("files of the chart, %v (-want +got):\n%s", err, diff)
	}
}
