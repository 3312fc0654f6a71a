// Package guide runs the commands of pages in docs, as a reader does. Tests in test/integration and
// test/e2e call it.
package guide

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Commands returns the commands in a section of a page: each is a block of indented lines.
func Commands(page, heading string) ([]string, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, section, _ := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var commands []string
	inside := false
	for line := range strings.Lines(section) {
		line, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented && inside:
			commands[len(commands)-1] += line
		case indented:
			commands = append(commands, line)
		}
		inside = indented
	}
	if len(commands) == 0 {
		return nil, fmt.Errorf("%s has no commands below %q", page, heading)
	}
	return commands, nil
}

// Run runs a command with more environment variables. The error contains its output.
func Run(ctx context.Context, command string, env ...string) error {
	cmd := exec.CommandContext(ctx, "bash", "-euc", command)
	cmd.Env = append(os.Environ(), env...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, output)
	}
	return nil
}
