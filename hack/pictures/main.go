// Command pictures draws the SVG files of a folder: the plots of docs/performance.md, and the live
// view of `make run`. Its arguments are the root of the repository and the folder. The same input
// makes the same files.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pictures ROOT FOLDER")
		os.Exit(2)
	}
	root, folder := os.Args[1], os.Args[2]
	if err := draw(root, folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func draw(root, folder string) error {
	plots, err := readPlots(filepath.Join(root, "test/bench/testdata"))
	if err != nil {
		return err
	}
	for _, p := range plots {
		if err := p.save(filepath.Join(folder, p.File+".svg")); err != nil {
			return fmt.Errorf("drawing %s: %w", p.File, err)
		}
	}
	frame, err := os.ReadFile(filepath.Join(root, "test/devcluster/view/testdata/rollout.txt"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "view.svg"), terminal(string(frame)), 0o644)
}
