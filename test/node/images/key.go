package images

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// keyOf returns the file that identifies the content of another file.
func keyOf(file string) string {
	return file + ".key"
}

// isCurrent returns whether the tar file of an image exists and was made of the recipe and of these
// parts. It also returns the key that identifies them.
func isCurrent(file string, r recipe, parts []string) (current bool, key string, err error) {
	digest := sha256.New()
	fmt.Fprintf(digest, "%+v\n", r)
	for _, part := range parts {
		if err := copyTo(digest, part); err != nil {
			return false, "", err
		}
	}
	key = hex.EncodeToString(digest.Sum(nil))
	if _, err := os.Stat(file); err != nil {
		return false, key, ignoreMissing(err)
	}
	last, err := os.ReadFile(keyOf(file))
	return string(last) == key, key, ignoreMissing(err)
}

func copyTo(w io.Writer, file string) error {
	content, err := os.Open(file)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(w, content)
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
