package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/hack/images/image"
)

// debianRelease is the release of Debian whose packages images contain.
const debianRelease = "bookworm"

// debian returns the tar file of a base, and builds it if it does not exist. To get newer packages,
// delete the file.
func (b builder) debian(ctx context.Context, which base) (string, error) {
	switch which {
	case tools:
		return b.bootstrap(ctx, "tools", "essential", "e2fsprogs,xfsprogs,util-linux,mount,udev")
	case busybox:
		return b.busybox(ctx)
	default:
		return "", fmt.Errorf("there is no base %d", which)
	}
}

// bootstrap returns a tar file with packages of Debian and what a variant of mmdebstrap adds.
func (b builder) bootstrap(ctx context.Context, name, variant, packages string) (string, error) {
	file := filepath.Join(b.folder, name+".tar")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return "", errors.New("images contain packages of Debian: run `apt-get install mmdebstrap`")
	}
	fmt.Fprintf(b.progress, "Downloading packages of Debian: %s (a minute, once)\n", packages)
	unfinished := filepath.Join(b.folder, name+".new.tar")
	err := b.run(ctx, b.folder, "mmdebstrap", "--variant="+variant, "--include="+packages,
		"--format=tar", debianRelease, filepath.Base(unfinished))
	if err != nil {
		return "", err
	}
	return file, os.Rename(unfinished, file)
}

// busybox returns a tar file with busybox and a link for each of its tools.
func (b builder) busybox(ctx context.Context) (string, error) {
	file := filepath.Join(b.folder, "busybox.tar")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	packages, err := b.bootstrap(ctx, "busybox-package", "extract", "busybox-static")
	if err != nil {
		return "", err
	}
	program := filepath.Join(b.folder, "busybox")
	if err := extract(packages, "bin/busybox", program); err != nil {
		return "", err
	}
	list, err := exec.CommandContext(ctx, program, "--list").Output()
	if err != nil {
		return "", fmt.Errorf("listing the tools of busybox: %w", err)
	}
	files := []image.File{{Path: "/bin/busybox", Mode: 0o755, Source: program}}
	for _, tool := range strings.Fields(string(list)) {
		if tool != "busybox" {
			files = append(files, image.File{Path: "/bin/" + tool, Mode: 0o777, Link: "busybox"})
		}
	}
	layer, err := image.Layer(files, time.Unix(0, 0))
	if err != nil {
		return "", err
	}
	content, err := layer.Uncompressed()
	if err != nil {
		return "", err
	}
	defer content.Close()
	return file, write(file, content, 0o644)
}

// extract writes a file of a tar file to a file that everybody may run.
func extract(archive, path, file string) error {
	content, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer content.Close()
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if err != nil {
			return fmt.Errorf("searching %s in %s: %w", path, archive, err)
		}
		name := strings.TrimPrefix(header.Name, "./")
		if header.Typeflag == tar.TypeReg && (name == path || name == "usr/"+path) {
			return write(file, reader, 0o755)
		}
	}
}

// write writes a file, which is complete or does not change.
func write(file string, content io.Reader, mode os.FileMode) error {
	unfinished, err := os.OpenFile(file+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(unfinished, content)
	if err := errors.Join(err, unfinished.Close()); err != nil {
		return err
	}
	return os.Rename(unfinished.Name(), file)
}
