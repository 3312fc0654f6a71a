package build

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// versionPackage holds what a Kubernetes component says about itself.
const versionPackage = "k8s.io/component-base/version"

func buildFlags(version string) []string {
	major, minor := majorMinor(version)
	variables := []string{
		"gitVersion=" + version,
		"gitMajor=" + major,
		"gitMinor=" + minor,
		"gitTreeState=archive",
	}
	flags := "-s -w"
	for _, v := range variables {
		flags += " -X " + versionPackage + "." + v
	}
	return []string{"-trimpath", "-buildvcs=false", "-ldflags=" + flags}
}

func majorMinor(version string) (string, string) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return "", ""
	}
	return parts[0], parts[1]
}

// buildProgram compiles one binary. It appears under its name only when it is
// complete.
func (b Builder) buildProgram(ctx context.Context, name, version string) error {
	pkg := programs()[name]
	total, err := b.countPackages(ctx, pkg)
	if err != nil {
		return err
	}
	target := filepath.Join(b.Out, name)
	args := append([]string{"build", "-v", "-o", target + ".new"}, buildFlags(version)...)
	cmd := b.goCommand(ctx, programsFolder, append(args, pkg)...)
	output, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("building %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("building %s: %w", name, err)
	}
	tail := b.follow(output, name, total)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, tail)
	}
	if err := os.Rename(target+".new", target); err != nil {
		return fmt.Errorf("putting %s in place: %w", name, err)
	}
	b.say("  %s", name)
	return nil
}

// follow counts the packages that `go build -v` names and returns its last
// lines, which explain a failure.
func (b Builder) follow(output io.Reader, name string, total int) string {
	const (
		interval = 10 * time.Second
		keep     = 20
	)
	var tail []string
	count, said := 0, time.Now()
	for lines := bufio.NewScanner(output); lines.Scan(); {
		count++
		tail = append(tail, lines.Text())
		if len(tail) > keep {
			tail = tail[1:]
		}
		if time.Since(said) >= interval {
			said = time.Now()
			b.say("  %s: %d of at most %d packages compiled", name, count, total)
		}
	}
	return strings.Join(tail, "\n")
}

func (b Builder) countPackages(ctx context.Context, pkg string) (int, error) {
	list, err := b.goList(ctx, "-deps", pkg)
	if err != nil {
		return 0, err
	}
	return strings.Count(list, "\n") + 1, nil
}

func (b Builder) goCommand(ctx context.Context, folder string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.Repository, folder)
	// The binaries are static, whichever C compiler this machine has.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return cmd
}

func (b Builder) goList(ctx context.Context, args ...string) (string, error) {
	cmd := b.goCommand(ctx, programsFolder, append([]string{"list"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running go list %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
