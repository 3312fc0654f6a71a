package state

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

func TestDataOfAnEarlierCloudIsRemoved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(folder, "volumes", "left"), 0o755))
	newData(t, folder, "volumes")
	left, err := os.ReadDir(filepath.Join(folder, "volumes"))
	must(t, err)
	assert.Check(t, len(left) == 0, "%v still exists", left)
}

func TestCopyThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	from, to := newData(t, folder, "from"), newData(t, folder, "to")
	if err := to.CopyFrom(t.Context(), from, "x", "y"); err == nil {
		t.Error("copying what does not exist is no error")
	}
	must(t, from.MakeFile("x", 1<<20))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := to.CopyFrom(canceled, from, "x", "y"); err == nil {
		t.Error("copying with a canceled context is no error")
	}
	left, err := os.ReadDir(filepath.Join(folder, "to"))
	must(t, err)
	assert.Check(t, len(left) == 0, "failed copies left %v", left)
}

func TestCopyKeepsLinksModesAndHoles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	from, to := newData(t, folder, "from"), newData(t, folder, "to")
	must(t, from.MakeFolder("x"))
	file := filepath.Join(from.Path("x"), "file")
	must(t, os.WriteFile(file, []byte("data"), 0o640))
	must(t, os.Link(file, filepath.Join(from.Path("x"), "hard")))
	must(t, os.Symlink("file", filepath.Join(from.Path("x"), "soft")))
	must(t, to.CopyFrom(t.Context(), from, "x", "y"))
	one, err := os.Stat(filepath.Join(to.Path("y"), "file"))
	must(t, err)
	two, err := os.Stat(filepath.Join(to.Path("y"), "hard"))
	must(t, err)
	target, err := os.Readlink(filepath.Join(to.Path("y"), "soft"))
	must(t, err)
	if !os.SameFile(one, two) || one.Mode().Perm() != 0o640 || target != "file" {
		t.Errorf("mode %s, hard link %t, symbolic link to %q", one.Mode(), os.SameFile(one, two), target)
	}
}

func TestClosedWorkerCompletesNothing(t *testing.T) {
	t.Parallel()
	worker := NewWorker(0, func(err error) { t.Errorf("reported %v", err) })
	held := make(chan struct{})
	done := worker.Start(Outcome{Held: []<-chan struct{}{held}},
		func(context.Context) error { t.Error("the work began"); return nil },
		func(error) { t.Error("the operation is complete") })
	worker.Close()
	late := worker.Start(Outcome{},
		func(context.Context) error { t.Error("work began after the end"); return nil },
		func(error) {})
	select {
	case <-done:
		t.Error("the operation is done")
	case <-late:
		t.Error("the late operation is done")
	default:
	}
}

func newData(t *testing.T, folder, name string) Data {
	t.Helper()
	data, err := NewData(folder, name)
	must(t, err)
	return data
}

func must(t *testing.T, err error) {
	t.Helper()
	assert.NilError(t, err)
}
