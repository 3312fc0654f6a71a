package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/hack/sbom/bill"
)

func TestImagesAreBuiltAndPushedForBothPlatforms(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(
		registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://") + "/you"
	root, output := sources(t), t.TempDir()
	build(t, "--root="+root, "--output="+output, "--push="+target, "--version=v1.2.3")
	checkPushed(t, output, target+"/demo-operator:v1.2.3")
	for _, architecture := range []string{"amd64", "arm64"} {
		img := find(t, readLayout(t, filepath.Join(output, "demo-operator")), "linux/"+architecture)
		config, err := img.ConfigFile()
		assert.NilError(t, err)
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
		assert.Check(t, is.DeepEqual(want, config.Config), "configuration for %s", architecture)
		for _, name := range []string{"demo-operator", "demo-tool"} {
			checkProgram(t, img, name, architecture)
		}
		file := filepath.Join(t.TempDir(), "ca.crt")
		extract(t, img, "etc/ssl/certs/ca-certificates.crt", file)
		if count := strings.Count(read(t, file), "BEGIN CERTIFICATE"); count < 100 {
			t.Errorf("the image contains %d certificate authorities", count)
		}
	}
}

// checkProgram checks how a program of an image was built.
func checkProgram(t *testing.T, img v1.Image, name, architecture string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	extract(t, img, "usr/bin/"+name, program)
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).Output()
	assert.NilError(t, err)
	for _, setting := range []string{
		"example.com/demo/cmd/" + name, "GOARCH=" + architecture, "CGO_ENABLED=0", "-trimpath=true",
	} {
		assert.Check(t, strings.Contains(string(out), setting),
			"%s for %s was not built with %s:\n%s", name, architecture, setting, out)
	}
}

// checkPushed checks that the image in the registry is that of the layout, with its SBOMs.
func checkPushed(t *testing.T, output, reference string) {
	t.Helper()
	tag, err := name.NewTag(reference)
	assert.NilError(t, err)
	index, err := remote.Index(tag)
	assert.NilError(t, err)
	digest, err := index.Digest()
	assert.NilError(t, err)
	if want := digestOf(t, output); digest.String() != want {
		t.Errorf("the pushed digest is %s, the layout has %s", digest, want)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := find(t, index, "linux/"+architecture).Digest()
		assert.NilError(t, err)
		var want []string
		for _, name := range []string{"demo-operator", "demo-tool"} {
			want = append(want, read(t, output, name+"-linux-"+architecture+".cdx.json"))
		}
		got := attached(t, tag.Digest(image.String()))
		slices.Sort(got)
		slices.Sort(want)
		assert.Check(t, is.DeepEqual(want, got), "SBOMs for %s", architecture)
	}
}

// attached returns the SBOMs that the registry lists as referrers of an image.
func attached(t *testing.T, image name.Digest) []string {
	t.Helper()
	referrers, err := remote.Referrers(image)
	assert.NilError(t, err)
	list, err := referrers.IndexManifest()
	assert.NilError(t, err)
	var texts []string
	for _, referrer := range list.Manifests {
		assert.Check(t, referrer.ArtifactType == bill.MediaType,
			"%s has a referrer of type %s", image, referrer.ArtifactType)
		document, err := remote.Image(image.Context().Digest(referrer.Digest.String()))
		assert.NilError(t, err)
		layers, err := document.Layers()
		assert.Assert(t, err == nil && len(layers) == 1, "layers %v: %v", layers, err)
		reader, err := layers[0].Compressed()
		assert.NilError(t, err)
		content, err := io.ReadAll(reader)
		assert.NilError(t, err)
		texts = append(texts, string(content))
	}
	return texts
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
		"cmd/demo-tool/main.go": "package main\n\nfunc main() {}\n",
		"Dockerfile.demo": `FROM golang AS builder
ENV CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
COPY . .
RUN go build -ldflags="-s -w ${VERSION:+-X main.release=$VERSION}" \
    -o /out/ ./cmd/demo-operator ./cmd/demo-tool

FROM scratch
COPY --from=builder /out/ /usr/bin/
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
	assert.NilError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	assert.NilError(t, os.WriteFile(file, []byte(content), 0o600))
}

func git(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", folder}, args...)...)
	out, err := cmd.CombinedOutput()
	assert.Assert(t, err == nil, "%s: %v\n%s", cmd, err, out)
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
	assert.NilError(t, err)
	manifest, err := list.IndexManifest()
	assert.NilError(t, err)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%s contains %d images", folder, len(manifest.Manifests))
	}
	index, err := list.ImageIndex(manifest.Manifests[0].Digest)
	assert.NilError(t, err)
	return index
}

func digestOf(t *testing.T, output string) string {
	t.Helper()
	digest, err := readLayout(t, filepath.Join(output, "demo-operator")).Digest()
	assert.NilError(t, err)
	return digest.String()
}

func find(t *testing.T, index v1.ImageIndex, platform string) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	assert.NilError(t, err)
	for _, descriptor := range manifest.Manifests {
		if descriptor.Platform.String() == platform {
			img, err := index.Image(descriptor.Digest)
			assert.NilError(t, err)
			return img
		}
	}
	t.Fatalf("no image for %s in %+v", platform, manifest.Manifests)
	return nil
}

func extract(t *testing.T, img v1.Image, path, file string) {
	t.Helper()
	content := mutate.Extract(img)
	defer content.Close()
	cmd := exec.CommandContext(t.Context(), "tar", "-xOf", "-", path)
	cmd.Stdin = content
	out, err := cmd.Output()
	assert.NilError(t, err, cmd)
	assert.NilError(t, os.WriteFile(file, out, 0o600))
}
