package image

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

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
