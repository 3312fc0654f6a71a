// Package image builds container images from files of this machine, without a container engine:
// the same files always make the same image. Its callers are hack/images and test/node/images.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

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

// name returns the name of a path in a layer.
func name(path string) string {
	return strings.TrimPrefix(path, "/")
}
