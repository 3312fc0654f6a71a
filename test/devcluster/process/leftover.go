package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// KillLeftovers kills processes of programs in the folders bins that have an argument below dir,
// and returns their number. Such processes remain if their parent was killed. Without /proc it
// finds none.
func KillLeftovers(dir string, bins ...string) int {
	killed := 0
	for _, pid := range find(dir, func(exe string) bool { return isIn(filepath.Dir(exe), bins) }) {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// Find returns the IDs of processes of a program that have an argument below dir. Without /proc it
// finds none.
func Find(dir, program string) []int {
	resolved, err := filepath.EvalSymlinks(program)
	if err != nil {
		return nil
	}
	return find(dir, func(exe string) bool { return exe == resolved })
}

func find(dir string, isWanted func(exe string) bool) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		proc := filepath.Join("/proc", e.Name())
		exe, err := os.Readlink(filepath.Join(proc, "exe"))
		// The kernel adds this to the name of a program that was rebuilt.
		if err != nil || !isWanted(strings.TrimSuffix(exe, " (deleted)")) {
			continue
		}
		args, err := os.ReadFile(filepath.Join(proc, "cmdline"))
		if err == nil && bytes.Contains(args, []byte(strings.TrimSuffix(dir, "/")+"/")) {
			found = append(found, pid)
		}
	}
	return found
}

func isIn(folder string, folders []string) bool {
	for _, f := range folders {
		if resolved, err := filepath.EvalSymlinks(f); err == nil && resolved == folder {
			return true
		}
	}
	return false
}
