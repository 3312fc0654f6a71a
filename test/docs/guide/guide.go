// Package guide runs the commands of pages in docs, as a reader does. Tests in test/integration and
// test/e2e call it.
package guide

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Commands returns the commands in a section of a page: each is a block of indented lines. A block
// after "The output is similar to this" is no command.
func Commands(page, heading string) ([]string, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, section, _ := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var commands []string
	inside, output, margin := false, false, ""
	for line := range strings.Lines(section) {
		line, indented := strings.CutPrefix(line, "    ")
		switch {
		case !indented && strings.TrimSpace(line) != "":
			output = strings.Contains(line, "output is similar to")
		case !indented || output:
		case inside:
			commands[len(commands)-1] += strings.TrimPrefix(line, margin)
		default:
			text := strings.TrimLeft(line, " ") // lines in a list have a margin
			margin = strings.TrimSuffix(line, text)
			commands = append(commands, text)
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
	_, err := Output(ctx, command, env...)
	return err
}

// Output is Run, and returns the output.
func Output(ctx context.Context, command string, env ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-euc", command)
	cmd.Env = append(os.Environ(), env...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", command, err, output)
	}
	return string(output), err
}

// Objects returns all objects of a cluster, as `Kind namespace/name`, except those that each
// cluster contains. The variables let kubectl find the cluster.
func Objects(ctx context.Context, env ...string) ([]string, error) {
	output, err := Output(ctx, `kubectl get --all-namespaces --output=jsonpath=`+
		`'{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}' `+
		`"$(kubectl api-resources --verbs=list,delete --output=name |
			grep -vE '^(events|endpoint)' | paste -sd,)" |
			grep -vE '^(ConfigMap|Lease|ServiceAccount) (default|kube-[a-z-]+)/'`, env...)
	found := strings.Split(strings.TrimSpace(output), "\n")
	slices.Sort(found)
	return slices.Compact(found), err
}
