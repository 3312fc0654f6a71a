package build

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newBuilder has a cache that looks complete.
func newBuilder(t *testing.T) Builder {
	t.Helper()
	b := Builder{Module: t.TempDir(), Out: t.TempDir(), Progress: &bytes.Buffer{}}
	for name, content := range map[string]string{"go.mod": "module a\n", "crd/go.mod": "module b\n"} {
		writeFile(t, filepath.Join(b.Module, name), content)
	}
	for name := range programs() {
		writeFile(t, filepath.Join(b.Out, name), "")
	}
	key, err := b.key()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, b.keyFile(), key)
	return b
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFreshness(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*testing.T, Builder)
		want   bool
	}{
		"complete": {change: func(*testing.T, Builder) {}, want: true},
		"other versions": {change: func(t *testing.T, b Builder) {
			writeFile(t, filepath.Join(b.Module, "go.mod"), "module a // newer\n")
		}},
		"other CRD versions": {change: func(t *testing.T, b Builder) {
			writeFile(t, filepath.Join(b.Module, "crd/go.mod"), "module b // newer\n")
		}},
		"a program is missing": {change: func(t *testing.T, b Builder) {
			if err := os.Remove(filepath.Join(b.Out, "etcd")); err != nil {
				t.Fatal(err)
			}
		}},
		"interrupted": {change: func(t *testing.T, b Builder) {
			if err := os.Remove(b.keyFile()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			test.change(t, b)
			key, err := b.key()
			if err != nil {
				t.Fatal(err)
			}
			if got := b.isFresh(key); got != test.want {
				t.Errorf("fresh is %t, want %t", got, test.want)
			}
		})
	}
}

func TestEnsureLeavesACompleteCacheAlone(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, ok := b.Progress.(*bytes.Buffer); !ok || out.Len() > 0 {
		t.Errorf("it said %q", out)
	}
}

func TestFollowKeepsTheEnd(t *testing.T) {
	t.Parallel()
	b := Builder{Progress: &bytes.Buffer{}}
	tail := b.follow(strings.NewReader(strings.Repeat("a/package\n", 50)+"x.go:1: undefined: y\n"), "etcd", 60)
	if lines := strings.Split(tail, "\n"); len(lines) != 20 || lines[19] != "x.go:1: undefined: y" {
		t.Errorf("tail is %q", tail)
	}
}

func TestEveryProgramHasItsTurn(t *testing.T) {
	t.Parallel()
	if len(programOrder()) != len(programs()) {
		t.Fatalf("%d programs have a turn, there are %d", len(programOrder()), len(programs()))
	}
	for _, name := range programOrder() {
		if programs()[name] == "" {
			t.Errorf("program %q has no package", name)
		}
	}
}

func TestBuildFlagsCarryTheVersion(t *testing.T) {
	t.Parallel()
	flags := strings.Join(buildFlags("v1.36.2"), " ")
	for _, want := range []string{".gitVersion=v1.36.2", ".gitMajor=1", ".gitMinor=36", "-trimpath"} {
		if !strings.Contains(flags, want) {
			t.Errorf("flags %q lack %q", flags, want)
		}
	}
}
