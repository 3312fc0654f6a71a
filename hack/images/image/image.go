// Package image builds container images from files of this machine, without a container engine:
// the same files always make the same image. Its callers are hack/images and test/node/images.
package image

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	registry "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// New returns an OCI image for a platform with layers, the lowest first.
func New(
	platform v1.Platform, config v1.Config, created time.Time, layers ...v1.Layer,
) (v1.Image, error) {
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: platform.Architecture, OS: platform.OS, Variant: platform.Variant,
		Created: v1.Time{Time: created}, Config: config,
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	var added []mutate.Addendum
	for _, layer := range layers {
		added = append(added, mutate.Addendum{
			Layer: layer, History: v1.History{Created: v1.Time{Time: created}},
		})
	}
	return mutate.Append(img, added...)
}

// Index returns an image index of images for several platforms.
func Index(images []v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range images {
		config, err := img.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: config.Platform()},
		})
	}
	return index, nil
}

// Layout creates an empty OCI layout in a folder.
func Layout(folder string) (layout.Path, error) {
	return layout.Write(folder, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
}

// File is a file of an image. Root owns it.
type File struct {
	// Path is the absolute path in the image.
	Path string
	// Mode contains the permissions.
	Mode int64
	// Source is the path on this machine of a file with the content, unless Content or Link is set.
	Source string
	// Content is the content.
	Content []byte
	// Link is the target of a symbolic link.
	Link string
}

// Layer returns a layer with the files and their folders. All have the time as time of their last
// change.
func Layer(files []File, changed time.Time) (v1.Layer, error) {
	var content bytes.Buffer
	writer := tar.NewWriter(&content)
	folders := map[string]bool{}
	for _, file := range files {
		if err := writeFolders(writer, folders, path.Dir(file.Path), changed); err != nil {
			return nil, err
		}
		if err := writeFile(writer, file, changed); err != nil {
			return nil, fmt.Errorf("adding %s to an image: %w", file.Path, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return layer(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, gzip.DefaultCompression)
}

// TarLayer returns a layer with the content of a tar file, which is read whenever the layer is.
func TarLayer(file string) (v1.Layer, error) {
	return layer(func() (io.ReadCloser, error) { return os.Open(file) }, gzip.BestSpeed)
}

func layer(open tarball.Opener, level int) (v1.Layer, error) {
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(level), tarball.WithCompressedCaching)
}

// writeFolders writes a folder and its parents, each once.
func writeFolders(
	writer *tar.Writer, written map[string]bool, folder string, changed time.Time,
) error {
	if folder == "/" || written[folder] {
		return nil
	}
	if err := writeFolders(writer, written, path.Dir(folder), changed); err != nil {
		return err
	}
	written[folder] = true
	return writer.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: name(folder) + "/", Mode: 0o755, ModTime: changed,
	})
}

func writeFile(writer *tar.Writer, file File, changed time.Time) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: name(file.Path), Mode: file.Mode, ModTime: changed,
	}
	if file.Link != "" {
		header.Typeflag, header.Linkname = tar.TypeSymlink, file.Link
		return writer.WriteHeader(header)
	}
	content := file.Content
	if file.Source != "" {
		var err error
		if content, err = os.ReadFile(file.Source); err != nil {
			return err
		}
	}
	header.Size = int64(len(content))
	if err := writer.WriteHeader(header); err != nil {
		return err
	}
	_, err := writer.Write(content)
	return err
}

func name(path string) string {
	return strings.TrimPrefix(path, "/")
}

// OfLayout returns the image for the only platform in an OCI layout.
func OfLayout(folder string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if index, err = index.ImageIndex(manifest.Manifests[0].Digest); err != nil {
		return nil, err
	}
	if manifest, err = index.IndexManifest(); err != nil {
		return nil, err
	}
	return index.Image(manifest.Manifests[0].Digest)
}

// WriteTar writes an image to a tar file. The file is complete or does not change.
func WriteTar(file, image string, img v1.Image) error {
	tag, err := registry.NewTag(image)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	unfinished := file + ".new"
	if err := tarball.WriteToFile(unfinished, tag, img); err != nil {
		return err
	}
	return os.Rename(unfinished, file)
}

// TarGz returns an archive of files in the format of a layer.
func TarGz(files []File, changed time.Time) ([]byte, error) {
	layer, err := Layer(files, changed)
	if err != nil {
		return nil, err
	}
	reader, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(reader)
	return content, errors.Join(err, reader.Close())
}

// Zip returns a zip archive of files that have a Source.
func Zip(files []File, changed time.Time) ([]byte, error) {
	var content bytes.Buffer
	archive := zip.NewWriter(&content)
	for _, file := range files {
		header := &zip.FileHeader{Name: name(file.Path), Method: zip.Deflate, Modified: changed}
		header.SetMode(fs.FileMode(file.Mode))
		writer, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(file.Source)
		if err != nil {
			return nil, err
		}
		if _, err := writer.Write(text); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return content.Bytes(), err
}
