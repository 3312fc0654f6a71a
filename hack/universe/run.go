package main

import (
	"bytes"
	"context"
	_ "embed" // for sources.txt
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

//go:embed sources.txt
var sources string

func run(ctx context.Context, errs io.Writer) int {
	if err := write(ctx, "pkg/kubectl/meaning"); err != nil {
		_, _ = fmt.Fprintln(errs, "universe:", err)
		return 1
	}
	return 0
}

// list is a list with its sources and with the versions of each entry.
type list struct {
	sources []string
	entries map[string][]string
}

// write writes all lists below a folder.
func write(ctx context.Context, folder string) (err error) {
	downloads, err := newDownloads()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(string(downloads))) }()
	lists := map[string]*list{}
	for line := range strings.Lines(sources) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := append(strings.Fields(line), "")
		name := fields[0]
		if lists[name] == nil {
			lists[name] = &list{entries: map[string][]string{}}
		}
		if err := lists[name].read(ctx, downloads, fields); err != nil {
			return fmt.Errorf("source %s: %w", strings.TrimSpace(line), err)
		}
	}
	for name, l := range lists {
		if err := os.WriteFile(filepath.Join(folder, name), l.text(), 0o600); err != nil {
			return err
		}
	}
	return errors.Join(
		writeOpenStack(ctx, "openstack.py", filepath.Join(folder, "testdata/universe/openstack.txt")),
		writeOpenStack(ctx, "statuses.py", filepath.Join(folder, "../testdata/statuses.txt")))
}

// read adds the entries of all versions of a source, which is a line of sources.txt.
func (l *list) read(ctx context.Context, d downloads, source []string) error {
	extract, module, versions, folders := source[1], source[2], source[3], source[4]
	l.sources = append(l.sources, fmt.Sprintf("# %s %s: %s", module, versions, folders))
	for version := range strings.SplitSeq(versions, ",") {
		root, err := d.folder(ctx, module, version)
		if err != nil {
			return err
		}
		c, err := load(root, module, strings.Split(folders, ","), source[5])
		if err != nil {
			return err
		}
		map[string]func(*code){
			"errors": (*code).errors, "warnings": (*code).warnings, "refusals": (*code).refusals,
			"parameters": (*code).parameters, "keys": (*code).keys,
		}[extract](c)
		if len(c.found) == 0 {
			return errors.New("no entry")
		}
		for entry := range c.found {
			l.entries[entry] = append(l.entries[entry], version)
		}
	}
	return nil
}

// text returns the list: its sources, and a line for each entry with the versions that it is in.
func (l *list) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Written by `make universe`.\n%s\n", strings.Join(l.sources, "\n"))
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
		return "", fmt.Errorf("downloading %s: %w: %s", version, err, result.Error)
	}
	return result.Dir, nil
}

// writeOpenStack writes a list of the services, with the versions of Debian's packages.
func writeOpenStack(ctx context.Context, program, file string) error {
	const packages = "python3-cinder python3-keystone python3-manila python3-nova"
	arguments := append([]string{"-W", "-f", "# ${Package} ${Version}\n"}, strings.Fields(packages)...)
	versions, err := exec.CommandContext(ctx, "dpkg-query", arguments...).Output()
	if err != nil {
		return fmt.Errorf("the packages %s of Debian 12: %w", packages, err)
	}
	entries, err := exec.CommandContext(ctx, "python3", "hack/universe/"+program).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	text := slices.Concat([]byte("# Written by `make universe`.\n"), versions, entries)
	return os.WriteFile(file, text, 0o600)
}
