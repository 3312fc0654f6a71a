// Package golden compares the output of tests with golden files.
package golden

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Match checks that a file contains a text. If write is true, it writes the file first.
func Match(t *testing.T, file, got string, write bool) {
	t.Helper()
	if write {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not as in %s, which -update writes (-want +got):\n%s", file, diff)
	}
}
