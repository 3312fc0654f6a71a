package build

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newBuilder returns a Builder with a cache that looks complete.
func newBuilder(t *testing.T) Builder {
	t.Helper()
	b := Builder{Repository: t.TempDir(), Out: t.TempDir(), Progress: &bytes.Buffer{}}
	for _, s := range sources() {
		writeFile(t, b.goMod(s.in), "module a\n")
	}
	for name := range programs() {
		writeFile(t, filepath.Join(b.Out, name), "")
	}
	programs, err := b.programsKey()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, b.programsKeyFile(), programs)
	manifests, err := b.manifestsKey()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, b.manifestsKeyFile(), manifests)
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

func TestBuilderNoticesOutdatedCache(t *testing.T) {
	t.Parallel()
	change := func(module, content string) func(*testing.T, Builder) {
		return func(t *testing.T, b Builder) { writeFile(t, b.goMod(module), content) }
	}
	remove := func(name string) func(*testing.T, Builder) {
		return func(t *testing.T, b Builder) {
			if err := os.Remove(filepath.Join(b.Out, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		change              func(*testing.T, Builder)
		programs, manifests bool // what is still complete
	}{
		"complete": {
			change: func(*testing.T, Builder) {}, programs: true, manifests: true,
		},
		"other version of Kubernetes": {
			change: change(programsFolder, "module a // newer\n"), manifests: true,
		},
		"other version of kwok": {
			change: change(programsFolder, "require sigs.k8s.io/kwok v9.0.0\n"),
		},
		"other version of the CRDs": {
			change: change("", "require github.com/openshift/api v9.0.0\n"), programs: true,
		},
		"other version of one CRD": {
			change: change("test/devcluster/crd",
				"require github.com/prometheus-operator/prometheus-operator v9.0.0\n"),
			programs: true,
		},
		"other version of a library": {
			change: change("", "require example.com/a v9.0.0\n"), programs: true, manifests: true,
		},
		"a program is missing":         {change: remove("etcd"), manifests: true},
		"build was interrupted":        {change: remove("kubernetes.key"), manifests: true},
		"manifests were not completed": {change: remove("manifests/key"), programs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			test.change(t, b)
			programs, err := b.hasPrograms()
			if err != nil || programs != test.programs {
				t.Errorf("programs are complete: %t (%v), want %t", programs, err, test.programs)
			}
			manifests, err := b.hasManifests()
			if err != nil || manifests != test.manifests {
				t.Errorf("manifests are complete: %t (%v), want %t", manifests, err, test.manifests)
			}
		})
	}
}

func TestEnsureKeepsCompleteCache(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, ok := b.Progress.(*bytes.Buffer); !ok || out.Len() > 0 {
		t.Errorf("progress is %q, want none", out)
	}
}

func TestKwokStagesCoverNodesAndPods(t *testing.T) {
	t.Parallel()
	var files []string
	for _, s := range sources() {
		files = append(files, s.files...)
	}
	all := strings.Join(files, " ")
	for _, want := range []string{
		"node-initialize", "node-heartbeat-with-lease", "pod-ready", "pod-delete",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no stage with %q", want)
		}
	}
}

func TestBinaryIsNamedLikePackage(t *testing.T) {
	t.Parallel()
	for pkg, want := range map[string]string{
		"go.etcd.io/etcd/server/v3": "server", "sigs.k8s.io/kwok/cmd/kwok": "kwok",
	} {
		if got := binary(pkg); got != want {
			t.Errorf("the binary of %s is %s, want %s", pkg, got, want)
		}
	}
}

func TestBuildFlagsCarryTheVersion(t *testing.T) {
	t.Parallel()
	flags := strings.Join(buildFlags("v1.36.2"), " ")
	for _, want := range []string{".gitVersion=v1.36.2", ".gitMajor=1", ".gitMinor=36", "-trimpath"} {
		if !strings.Contains(flags, want) {
			t.Errorf("flags %q do not contain %q", flags, want)
		}
	}
}
