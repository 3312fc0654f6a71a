package process

import (
	"fmt"
	"os"
	"syscall"
)

// WriteProgram writes a file that this process executes later. No other goroutine starts a process
// meanwhile: such a process would have the file open for writing for a moment, and the kernel does
// not execute a file that is open for writing.
func WriteProgram(path string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, content, 0o755); err != nil {
		return fmt.Errorf("writing a program: %w", err)
	}
	return nil
}
