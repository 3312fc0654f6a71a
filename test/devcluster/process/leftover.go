package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// KillLeftovers kills processes of programs in one of the folders bins that have
// an argument inside of dir, and returns how many there were. Such processes
// remain when their parent was killed without a chance to stop them. Where there
// is no /proc it finds none.
func KillLeftovers(dir string, bins ...string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	killed := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !isLeftover(pid, dir, bins) {
			continue
		}
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

func isLeftover(pid int, dir string, bins []string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	exe, err := os.Readlink(filepath.Join(proc, "exe"))
	if err != nil {
		return false
	}
	// The kernel adds this to the name of a program that was rebuilt meanwhile.
	exe = strings.TrimSuffix(exe, " (deleted)")
	if !isIn(filepath.Dir(exe), bins) {
		return false
	}
	args, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	return err == nil && bytes.Contains(args, []byte(strings.TrimSuffix(dir, "/")+"/"))
}

func isIn(folder string, folders []string) bool {
	for _, f := range folders {
		if resolved, err := filepath.EvalSymlinks(f); err == nil && resolved == folder {
			return true
		}
	}
	return false
}
