package process

import (
	"bytes"
	"os"
	"os/signal"
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
	for _, bin := range bins {
		programs, _ := filepath.Glob(filepath.Join(bin, "*")) // the pattern is valid
		for _, program := range programs {
			for _, pid := range Find(dir, program) {
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					killed++
				}
			}
		}
	}
	return killed
}

// KillOnSignal kills such processes, and then this one, if the user ends it, for example with
// Ctrl-C.
func KillOnSignal(dir string, bins ...string) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	received := make(chan os.Signal, 1)
	signal.Notify(received, signals...)
	go func() {
		<-received
		KillLeftovers(dir, bins...)
		signal.Reset(signals...)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM) // ends this process in any case
	}()
}

// Find returns the IDs of processes of a program that have an argument below dir. Without /proc it
// finds none.
func Find(dir, program string) []int {
	program, err := filepath.EvalSymlinks(program)
	if err != nil {
		return nil
	}
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
		exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		// The kernel adds this to the name of a program that was rebuilt.
		if err != nil || strings.TrimSuffix(exe, " (deleted)") != program {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && bytes.Contains(args, []byte(strings.TrimSuffix(dir, "/")+"/")) {
			found = append(found, pid)
		}
	}
	return found
}
