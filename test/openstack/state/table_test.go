//go:build linux

package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type row struct {
	Name string
	Size int
}

func TestTableSurvivesARestart(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	folder := open(t, path)
	table, err := OpenTable[row](folder, "rows")
	must(t, err)
	must(t, table.Put("a", row{"first", 1}))
	must(t, table.Put("b", row{"second", 1}))
	must(t, table.Put("a", row{"first", 2}))
	must(t, table.Delete("b"))
	must(t, table.Delete("b"))
	must(t, folder.Close())

	table, err = OpenTable[row](open(t, path), "rows")
	must(t, err)
	if diff := cmp.Diff([]row{{"first", 2}}, table.List()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestTableIgnoresRecordsThatACrashLeftIncomplete(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	rows := filepath.Join(path, "records", "rows")
	must(t, os.MkdirAll(rows, 0o755))
	must(t, os.WriteFile(filepath.Join(rows, "a.json"), []byte(`{"Name":"whole"}`), 0o600))
	half := filepath.Join(rows, "a.json"+temporary)
	must(t, os.WriteFile(half, []byte(`{"Na`), 0o600))
	table, err := OpenTable[row](open(t, path), "rows")
	must(t, err)
	if diff := cmp.Diff([]row{{Name: "whole"}}, table.List()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the incomplete record: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(rows, "b.json"), []byte(`{"Na`), 0o600))
	if _, err := OpenTable[row](Folder{path: path}, "rows"); err == nil ||
		!strings.Contains(err.Error(), "b.json") {
		t.Errorf("a damaged record gives %v", err)
	}
}

func TestCopyThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	folder := open(t, path)
	from, err := OpenData(folder, "from")
	must(t, err)
	to, err := OpenData(folder, "to")
	must(t, err)
	if err := to.CopyFrom(t.Context(), from, "x", "y"); err == nil {
		t.Error("copying what does not exist is no error")
	}
	must(t, from.MakeFile("x", 1<<20))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := to.CopyFrom(canceled, from, "x", "y"); err == nil {
		t.Error("copying with a canceled context is no error")
	}
	left, err := os.ReadDir(filepath.Join(path, "to"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("failed copies left %v", left)
	}
}

func TestCopyKeepsLinksModesAndHoles(t *testing.T) {
	t.Parallel()
	folder := open(t, t.TempDir())
	from, err := OpenData(folder, "from")
	must(t, err)
	to, err := OpenData(folder, "to")
	must(t, err)
	must(t, from.MakeFolder("x"))
	file := filepath.Join(from.Path("x"), "file")
	must(t, os.WriteFile(file, []byte("data"), 0o640))
	must(t, os.Link(file, filepath.Join(from.Path("x"), "hard")))
	must(t, os.Symlink("file", filepath.Join(from.Path("x"), "soft")))
	for range 2 { // the second copy replaces the first
		must(t, to.CopyFrom(t.Context(), from, "x", "y"))
	}
	one, err := os.Stat(filepath.Join(to.Path("y"), "file"))
	must(t, err)
	two, err := os.Stat(filepath.Join(to.Path("y"), "hard"))
	must(t, err)
	target, err := os.Readlink(filepath.Join(to.Path("y"), "soft"))
	must(t, err)
	if !os.SameFile(one, two) || one.Mode().Perm() != 0o640 || target != "file" {
		t.Errorf("mode %s, hard link %t, symbolic link to %q", one.Mode(), os.SameFile(one, two), target)
	}
	used, err := to.Used("y")
	must(t, err)
	if used != 8 { // two names of 4 bytes
		t.Errorf("the copy uses %d bytes", used)
	}
}

func TestClosedWorkerCompletesNothing(t *testing.T) {
	t.Parallel()
	worker := NewWorker(0, func(err error) { t.Errorf("reported %v", err) })
	held := make(chan struct{})
	done := worker.Start(Outcome{Held: []<-chan struct{}{held}},
		func(context.Context) error { t.Error("the work began"); return nil },
		func(error) error { t.Error("the operation is complete"); return nil })
	worker.Close()
	late := worker.Start(Outcome{},
		func(context.Context) error { t.Error("work began after the end"); return nil },
		func(error) error { return nil })
	select {
	case <-done:
		t.Error("the operation is done")
	case <-late:
		t.Error("the late operation is done")
	default:
	}
}

func open(t *testing.T, path string) Folder {
	t.Helper()
	folder, err := Open(path)
	must(t, err)
	t.Cleanup(func() { _ = folder.Close() }) // a test may have closed it
	return folder
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
