package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/openstack-csi/csi-operator/hack/images/image"
)

// pluginFolder contains the plugin of kubectl, and the template of its manifest for Krew.
const pluginFolder = "cmd/kubectl-openstack_csi"

type archive struct {
	OS, Architecture, Program, File, SHA256 string
}

// pluginPlatforms are the platforms for which a release contains the plugin.
func pluginPlatforms() []v1.Platform {
	return []v1.Platform{
		{OS: "linux", Architecture: "amd64"},
		{OS: "linux", Architecture: "arm64"},
		{OS: "darwin", Architecture: "amd64"},
		{OS: "darwin", Architecture: "arm64"},
		{OS: "windows", Architecture: "amd64"},
	}
}

// plugin builds an archive of the plugin of kubectl for each platform, and its manifest for Krew.
// Sources without the plugin have none.
func (o Options) plugin(
	ctx context.Context, sources commit, platforms []v1.Platform, progress io.Writer,
) error {
	text, err := os.ReadFile(filepath.Join(o.Root, pluginFolder, "krew.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	manifest, err := template.New("krew.yaml").Parse(string(text))
	if err != nil {
		return err
	}
	values := struct {
		Version  string
		Archives []archive
	}{Version: sources.version}
	for _, platform := range platforms {
		one, err := o.archive(ctx, sources, platform)
		if err != nil {
			return fmt.Errorf("building the plugin for %s: %w", platform, err)
		}
		fmt.Fprintf(progress, "%s: sha256:%s\n", filepath.Join(o.Output, one.File), one.SHA256)
		values.Archives = append(values.Archives, *one)
	}
	var filled bytes.Buffer
	if err := manifest.Execute(&filled, values); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.Output, "openstack-csi.yaml"), filled.Bytes(), 0o600)
}

// archive builds the plugin for a platform, and writes its archive. The same sources result in the
// same archive.
func (o Options) archive(
	ctx context.Context, sources commit, platform v1.Platform,
) (*archive, error) {
	folder, err := os.MkdirTemp("", "csi-operator-plugin-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	one := &archive{
		OS: platform.OS, Architecture: platform.Architecture, Program: filepath.Base(pluginFolder),
	}
	one.File = fmt.Sprintf("%s-%s-%s.tar.gz", one.Program, one.OS, one.Architecture)
	if one.OS == "windows" {
		one.File = strings.TrimSuffix(one.File, ".tar.gz") + ".zip"
		one.Program += ".exe"
	}
	program := filepath.Join(folder, one.Program)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -X github.com/openstack-csi/csi-operator/pkg/version.release="+sources.version,
		"-o", program, "./"+pluginFolder)
	cmd.Dir = o.Root
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOWORK=off",
		"GOFLAGS=-mod=readonly -gcflags=all=-dwarf=false -tags=grpcnotrace",
		"GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOARM64=", "GOAMD64=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	const completion = "kubectl_complete-openstack_csi"
	files := []image.File{
		{Path: "/" + one.Program, Mode: 0o755, Source: program},
		{
			Path: "/" + completion, Mode: 0o755,
			Source: filepath.Join(o.Root, pluginFolder, completion),
		},
		{Path: "/LICENSE", Mode: 0o644, Source: filepath.Join(o.Root, "LICENSE")},
	}
	write := image.TarGz
	if one.OS == "windows" {
		write = image.Zip
	}
	content, err := write(files, sources.time)
	if err != nil {
		return nil, err
	}
	one.SHA256 = fmt.Sprintf("%x", sha256.Sum256(content))
	return one, os.WriteFile(filepath.Join(o.Output, one.File), content, 0o644)
}
