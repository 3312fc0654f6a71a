package main

import (
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/openstack-csi/csi-operator/hack/sbom/bill"
)

func TestLayoutContainsBothPlatforms(t *testing.T) {
	t.Parallel()
	root, output := sources(t), t.TempDir()
	build(t, "--root="+root, "--output="+output, "--version=v1.2.3")
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		img := find(t, readLayout(t, filepath.Join(output, "demo-operator")), platform)
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		want := v1.Config{
			User: "1001", Entrypoint: []string{"/usr/bin/demo-operator"}, WorkingDir: "/",
			Labels: map[string]string{
				"name": "demo-operator", "description": "Installs a driver.", "version": "v1.2.3",
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.source":      "https://example.com/demo",
				"org.opencontainers.image.title":       "demo-operator",
				"org.opencontainers.image.description": "Installs a driver.",
				"org.opencontainers.image.version":     "v1.2.3",
				"org.opencontainers.image.revision":    git(t, root, "rev-parse", "HEAD"),
			},
		}
		if diff := cmp.Diff(want, config.Config); diff != "" {
			t.Errorf("configuration for %s (-want +got):\n%s", platform, diff)
		}
		if got := config.Platform().String(); got != platform {
			t.Errorf("the image for %s is for %s", platform, got)
		}
	}
}

func TestImageRunsTheProgramOfItsPlatform(t *testing.T) {
	t.Parallel()
	output := t.TempDir()
	build(t, "--root="+sources(t), "--output="+output)
	files := map[string]string{}
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		img := find(t, readLayout(t, filepath.Join(output, "demo-operator")), platform)
		program := filepath.Join(t.TempDir(), "program")
		extract(t, img, "usr/bin/demo-operator", program)
		out, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).Output()
		if err != nil {
			t.Fatal(err)
		}
		files[platform] = string(out)
	}
	for platform, text := range files {
		_, architecture, _ := strings.Cut(platform, "/")
		for _, setting := range []string{"GOARCH=" + architecture, "CGO_ENABLED=0", "-trimpath=true"} {
			if !strings.Contains(text, setting) {
				t.Errorf("the program for %s was not built with %s:\n%s", platform, setting, text)
			}
		}
	}
}

func TestImageContainsAllPrograms(t *testing.T) {
	t.Parallel()
	root, output := sources(t), t.TempDir()
	write(t, filepath.Join(root, "cmd/demo-tool/main.go"), "package main\nfunc main() {}\n")
	file := filepath.Join(root, "Dockerfile.demo")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Replace(string(content), "-o /out/demo-operator",
		"-o /out/ ./cmd/demo-tool", 1))
	build(t, "--root="+root, "--output="+output, "--platforms=linux/amd64")
	img := find(t, readLayout(t, filepath.Join(output, "demo-operator")), "linux/amd64")
	for _, name := range []string{"demo-operator", "demo-tool"} {
		program := filepath.Join(t.TempDir(), "program")
		extract(t, img, "usr/bin/"+name, program)
		out, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).Output()
		if err != nil || !strings.Contains(string(out), "example.com/demo/cmd/"+name) {
			t.Errorf("%s is another program: %s %v", name, out, err)
		}
		if _, err := os.Stat(filepath.Join(output, name+"-linux-amd64.cdx.json")); err != nil {
			t.Errorf("%s has no SBOM: %v", name, err)
		}
	}
}

func TestImageContainsCertificateAuthorities(t *testing.T) {
	t.Parallel()
	output := t.TempDir()
	build(t, "--root="+sources(t), "--output="+output, "--platforms=linux/amd64")
	img := find(t, readLayout(t, filepath.Join(output, "demo-operator")), "linux/amd64")
	file := filepath.Join(t.TempDir(), "ca.crt")
	extract(t, img, "etc/ssl/certs/ca-certificates.crt", file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if count := strings.Count(string(content), "BEGIN CERTIFICATE"); count < 100 {
		t.Errorf("the image contains %d certificate authorities", count)
	}
}

func TestTwoBuildsHaveTheSameDigest(t *testing.T) {
	t.Parallel()
	first, second := sources(t), t.TempDir()
	git(t, first, "clone", "--quiet", first, second)
	outputs := []string{t.TempDir(), t.TempDir()}
	build(t, "--root="+first, "--output="+outputs[0])
	build(t, "--root="+second, "--output="+outputs[1])
	if a, b := digestOf(t, outputs[0]), digestOf(t, outputs[1]); a != b {
		t.Errorf("the digest is %s in one folder and %s in another", a, b)
	}
}

func TestPushedImageHasAttachedSBOMs(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true)))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://") + "/you"
	output := t.TempDir()
	build(t, "--root="+sources(t), "--output="+output, "--push="+target, "--version=v2")

	tag, err := name.NewTag(target + "/demo-operator:v2")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if want := digestOf(t, output); digest.String() != want {
		t.Errorf("the pushed digest is %s, the layout has %s", digest, want)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := find(t, index, "linux/"+architecture).Digest()
		if err != nil {
			t.Fatal(err)
		}
		got := attached(t, tag.Digest(image.String()))
		want, err := os.ReadFile(
			filepath.Join(output, "demo-operator-linux-"+architecture+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("SBOM for %s (-file +attached):\n%s", architecture, diff)
		}
	}
}

// attached returns the SBOM that the registry lists as referrer of an image.
func attached(t *testing.T, image name.Digest) string {
	t.Helper()
	referrers, err := remote.Referrers(image)
	if err != nil {
		t.Fatal(err)
	}
	list, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != bill.MediaType {
		t.Fatalf("referrers of %s: %+v; want one of type %s", image, list.Manifests, bill.MediaType)
	}
	document, err := remote.Image(image.Context().Digest(list.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := document.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers %v: %v", layers, err)
	}
	reader, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestSourcesWithoutRepositoryAreUnversioned(t *testing.T) {
	t.Parallel()
	root, output := sources(t), t.TempDir()
	if err := os.RemoveAll(filepath.Join(root, ".git")); err != nil {
		t.Fatal(err)
	}
	build(t, "--root="+root, "--output="+output, "--platforms=linux/amd64")
	img := find(t, readLayout(t, filepath.Join(output, "demo-operator")), "linux/amd64")
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	_, hasRevision := config.Config.Labels["org.opencontainers.image.revision"]
	version := config.Config.Labels["org.opencontainers.image.version"]
	if version != "unversioned" || hasRevision {
		t.Errorf("labels %v", config.Config.Labels)
	}
}

func TestErrorsNameTheFix(t *testing.T) {
	t.Parallel()
	changed := sources(t)
	write(t, filepath.Join(changed, "go.mod"), "module example.com/demo\n\ngo 1.26\n\n")
	broken := sources(t)
	write(t, filepath.Join(broken, "cmd/demo-operator/main.go"), "package main\nfunc main() { x }\n")
	released := sources(t)
	withPlugin(t, released)
	for text, args := range map[string][]string{
		"set one such as v1.0.0": {"--root=" + released, "--registry=quay.io/me"},
		`CHANGELOG.md has no section "## v2.0.0"`: {
			"--root=" + released, "--registry=quay.io/me", "--version=v2.0.0",
		},
		"contains no Dockerfile.*":                 {"--root=" + t.TempDir()},
		`platform "arm64" is not like linux/arm64`: {"--root=" + sources(t), "--platforms=arm64"},
		"undefined: x":                             {"--root=" + broken, "--platforms=linux/amd64"},
		"set --version for the images to push":     {"--root=" + changed, "--push=127.0.0.1:1"},
		"naming the image in the registry":         {"--root=" + sources(t), "--push=UPPER CASE"},
		"unknown flag: --unknown":                  {"--unknown"},
		`unexpected argument "demo"`:               {"demo"},
		"pushing 127.0.0.1:1/demo-operator":        {"--root=" + sources(t), "--push=127.0.0.1:1"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			code := run(append(args, "--output="+t.TempDir()), &stdout, &stderr)
			if code == 0 || !strings.Contains(stderr.String(), text) {
				t.Errorf("exit code %d, error %q; want %q", code, stderr.String(), text)
			}
		})
	}
}

// sources returns a repository with the sources of a small operator.
func sources(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for file, content := range map[string]string{
		"go.mod": "module example.com/demo\n\ngo 1.26\n",
		"cmd/demo-operator/main.go": `package main

import "fmt"

var release string

func main() { fmt.Println("installed", release) }
`,
		"Dockerfile.demo": `FROM golang AS builder
ENV CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
COPY . .
RUN go build -ldflags="-s -w ${VERSION:+-X main.release=$VERSION}" \
    -o /out/demo-operator ./cmd/demo-operator

FROM scratch
COPY --from=builder /out/demo-operator /usr/bin/
USER 1001
ENTRYPOINT ["/usr/bin/demo-operator"]
LABEL name="demo-operator" description="Installs a driver." \
      org.opencontainers.image.source="https://example.com/demo" \
      org.opencontainers.image.licenses="Apache-2.0"
`,
	} {
		write(t, filepath.Join(root, file), content)
	}
	git(t, root, "init", "--quiet")
	git(t, root, "add", ".")
	git(t, root, "-c", "user.name=you", "-c", "user.email=you@example.com", "commit", "--quiet",
		"--message=Start")
	return root
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", folder}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return strings.TrimSpace(string(out))
}

func build(t *testing.T, args ...string) {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
}

// readLayout returns the only image index of an OCI layout.
func readLayout(t *testing.T, folder string) v1.ImageIndex {
	t.Helper()
	list, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := list.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%s contains %d images", folder, len(manifest.Manifests))
	}
	index, err := list.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func digestOf(t *testing.T, output string) string {
	t.Helper()
	digest, err := readLayout(t, filepath.Join(output, "demo-operator")).Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// find returns the image of a platform.
func find(t *testing.T, index v1.ImageIndex, platform string) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, descriptor := range manifest.Manifests {
		if descriptor.Platform.String() == platform {
			img, err := index.Image(descriptor.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return img
		}
	}
	t.Fatalf("no image for %s in %+v", platform, manifest.Manifests)
	return nil
}

// extract writes a file of an image.
func extract(t *testing.T, img v1.Image, path, file string) {
	t.Helper()
	content := mutate.Extract(img)
	defer content.Close()
	cmd := exec.CommandContext(t.Context(), "tar", "-xOf", "-", path)
	cmd.Stdin = content
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
}
