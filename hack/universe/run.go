package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func run(ctx context.Context, errs io.Writer) int {
	if err := write(ctx, "pkg/kubectl/meaning"); err != nil {
		_, _ = fmt.Fprintln(errs, "universe:", err)
		return 1
	}
	return 0
}

// write writes all lists below a folder.
func write(ctx context.Context, folder string) (err error) {
	downloads, err := newDownloads()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(string(downloads))) }()
	lists := map[string]*list{}
	for _, s := range sources() {
		if lists[s.list] == nil {
			lists[s.list] = &list{entries: map[string][]string{}}
		}
		if err := lists[s.list].read(ctx, downloads, s); err != nil {
			return err
		}
	}
	for name, l := range lists {
		if err := os.WriteFile(filepath.Join(folder, name), l.text(), 0o600); err != nil {
			return fmt.Errorf("writing list %s: %w", name, err)
		}
	}
	return writeOpenStack(ctx, filepath.Join(folder, "testdata/universe/openstack.txt"))
}

// list is a list with the versions of each entry.
type list struct {
	sources []string
	entries map[string][]string
}

// read adds the entries of all versions of a source.
func (l *list) read(ctx context.Context, d downloads, s source) error {
	l.sources = append(l.sources, fmt.Sprintf("# %s %s: %s", s.module, strings.Join(s.versions, " "),
		strings.Join(s.folders, " ")))
	for _, version := range s.versions {
		root, err := d.folder(ctx, s.module, version)
		if err != nil {
			return err
		}
		found, err := s.extract(root, s)
		if err != nil {
			return fmt.Errorf("module %s %s: %w", s.module, version, err)
		}
		if len(found) == 0 {
			return fmt.Errorf("module %s %s: no entry in %v", s.module, version, s.folders)
		}
		for entry := range found {
			l.entries[entry] = append(l.entries[entry], version)
		}
	}
	return nil
}

// text returns the list: its sources, and a line for each entry with the versions that it is in.
func (l *list) text() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "# Written by `make universe`.")
	fmt.Fprintln(&b, strings.Join(l.sources, "\n"))
	for _, entry := range slices.Sorted(maps.Keys(l.entries)) {
		fmt.Fprintf(&b, "%s\t%s\n", entry, strings.Join(l.entries[entry], ","))
	}
	return b.Bytes()
}

// downloads is the folder of a temporary module with the sums of the modules that other programs
// pin, because go verifies downloads with them.
type downloads string

func newDownloads() (downloads, error) {
	folder, err := os.MkdirTemp("", "universe")
	const programs = "test/node/images/programs/"
	var sums []byte
	for _, file := range []string{
		programs + "go.sum", programs + "logins/go.v1.33.sum", "test/devcluster/kubernetes/go.sum",
	} {
		content, unread := os.ReadFile(file)
		sums, err = append(sums, content...), errors.Join(err, unread)
	}
	return downloads(folder), errors.Join(err,
		os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module lists\n"), 0o600),
		os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o600))
}

// folder downloads a module and returns its folder.
func (d downloads) folder(ctx context.Context, module, version string) (string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	command.Dir = string(d)
	said, err := command.Output()
	var result struct{ Dir, Error string }
	if err := errors.Join(json.Unmarshal(said, &result), err); err != nil {
		return "", fmt.Errorf("downloading %s %s: %w: %s", module, version, err, result.Error)
	}
	return result.Dir, nil
}

// writeOpenStack writes the list of the services, with the versions of Debian's packages.
func writeOpenStack(ctx context.Context, file string) error {
	const packages = "python3-cinder python3-keystone python3-manila python3-nova"
	arguments := append([]string{"-W", "-f", "# ${Package} ${Version}\n"}, strings.Fields(packages)...)
	versions, err := exec.CommandContext(ctx, "dpkg-query", arguments...).Output()
	if err != nil {
		return fmt.Errorf("the packages %s of Debian 12: %w", packages, err)
	}
	entries, err := exec.CommandContext(ctx, "python3", "hack/universe/openstack.py").Output()
	if err != nil {
		return fmt.Errorf("openstack.py: %w", err)
	}
	text := slices.Concat([]byte("# Written by `make universe`.\n"), versions, entries)
	return os.WriteFile(file, text, 0o600)
}
