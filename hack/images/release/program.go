package release

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/openstack-csi/csi-operator/hack/images/image"
	"github.com/openstack-csi/csi-operator/hack/sbom/bill"
)

func (r release) compile(ctx context.Context, platform v1.Platform, folder string) error {
	cmd := exec.CommandContext(ctx, "bash", "-c",
		fmt.Sprintf("export %s; exec %s", r.Variables,
			strings.Replace(r.Build, "go build ", `go build -o "$FOLDER/" `, 1)))
	cmd.Dir = r.Root
	cmd.Env = append(cmd.Environ(), "FOLDER="+folder, "VERSION="+r.Version, "GOOS="+platform.OS,
		"GOARCH="+platform.Architecture, "GOARM64=", "GOAMD64=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", r.Build, err, out)
	}
	return nil
}

// image returns the image with the programs in a folder. In place of a base image it contains the
// certificate authorities that Mozilla trusts.
func (r release) image(platform v1.Platform, folder string) (v1.Image, error) {
	authorities, err := image.Layer([]image.File{{
		Path: "/etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Content: certificateAuthorities(),
	}}, r.commit.time)
	if err != nil {
		return nil, err
	}
	var programs []image.File
	for _, program := range r.Programs {
		programs = append(programs, image.File{
			Path: program.Path, Mode: 0o755, Source: filepath.Join(folder, program.Built()),
		})
	}
	binaries, err := image.Layer(programs, r.commit.time)
	if err != nil {
		return nil, err
	}
	config := v1.Config{User: r.User, Entrypoint: r.Entrypoint, Labels: r.labels(), WorkingDir: "/"}
	return image.New(platform, config, r.commit.time, authorities, binaries)
}

func (r release) labels() map[string]string {
	labels := maps.Clone(r.Labels)
	labels["version"] = r.commit.version
	labels["org.opencontainers.image.title"] = r.name()
	labels["org.opencontainers.image.description"] = r.Labels["description"]
	labels["org.opencontainers.image.version"] = r.commit.version
	if r.commit.revision != "" {
		labels["org.opencontainers.image.revision"] = r.commit.revision
	}
	return labels
}

// certificateAuthorities returns the certificates of the authorities that Mozilla trusts without
// constraints, because the file cannot express constraints.
func certificateAuthorities() []byte {
	var content []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			block := &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}
			content = append(content, pem.EncodeToMemory(block)...)
		}
	}
	return content
}

// attachment is an SBOM that belongs to an image.
type attachment struct {
	content []byte
	subject v1.Descriptor
}

// bills writes the SBOM of each program in a folder for a platform beside the layout.
func (r release) bills(platform v1.Platform, folder string, img v1.Image) ([]attachment, error) {
	subject, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	var attachments []attachment
	for _, program := range r.Programs {
		content, err := bill.OfProgram(filepath.Join(folder, program.Built()))
		if err != nil {
			return nil, err
		}
		file := fmt.Sprintf("%s-%s-%s.cdx.json", path.Base(program.Path), platform.OS,
			platform.Architecture)
		if err := os.WriteFile(filepath.Join(r.Output, file), content, 0o644); err != nil {
			return nil, err
		}
		attachments = append(attachments, attachment{content, *subject})
	}
	return attachments, nil
}

func (r release) repository() string {
	return path.Join(r.Push, r.name())
}
