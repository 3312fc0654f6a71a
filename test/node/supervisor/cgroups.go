package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// removeTimeout bounds the removal of a group: the kernel takes a moment to end its processes.
const removeTimeout = 10 * time.Second

// hierarchies returns the roots of all hierarchies: one of version 2, or one for each controller of
// version 1.
func hierarchies() ([]string, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &stat); err != nil {
		return nil, fmt.Errorf("reading %s: %w", cgroupRoot, err)
	}
	if stat.Type == unix.CGROUP2_SUPER_MAGIC {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("listing control groups: %w", err)
	}
	var all []string
	for _, entry := range entries {
		if entry.IsDir() { // links are other names of a hierarchy with several controllers
			all = append(all, filepath.Join(cgroupRoot, entry.Name()))
		}
	}
	return all, nil
}

func createGroups(group string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := createGroup(root, group); err != nil {
			return fmt.Errorf("creating control group %s in %s: %w", group, root, err)
		}
	}
	return nil
}

func createGroup(root, group string) error {
	folder := root
	for name := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
		if err := inherit(folder, filepath.Join(folder, name)); err != nil {
			return err
		}
		folder = filepath.Join(folder, name)
	}
	return nil
}

// inherit creates a group and makes it usable: with version 2 the parent must share its
// controllers, with version 1 a group starts without CPUs and memory nodes.
func inherit(parent, child string) error {
	if err := os.Mkdir(child, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if content, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers")); err == nil {
		var enable []string
		for controller := range strings.FieldsSeq(string(content)) {
			enable = append(enable, "+"+controller)
		}
		return os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"),
			[]byte(strings.Join(enable, " ")), 0o644)
	}
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		content, err := os.ReadFile(filepath.Join(parent, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(child, name), content, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeGroups removes a group and all groups in it, whose processes have ended or end now.
func removeGroups(group string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	end := time.Now().Add(removeTimeout)
	for _, root := range roots {
		folder := filepath.Join(root, group)
		err := removeGroup(folder)
		for errors.Is(err, unix.EBUSY) && time.Now().Before(end) {
			<-time.After(20 * time.Millisecond)
			err = removeGroup(folder)
		}
		if err != nil {
			return fmt.Errorf("removing a control group: %w", err)
		}
		// Groups of other nodes of the cluster may be beside it.
		if parent := filepath.Dir(folder); parent != root {
			_ = os.Remove(parent)
		}
	}
	return nil
}

func removeGroup(folder string) error {
	var groups []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Reverse(groups) // children first
	for _, group := range groups {
		if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
