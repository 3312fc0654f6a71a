// Package golden compares the output of tests with golden files.
package golden

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/golden"
)

// Update returns whether the flag -update asks tests to write golden files.
func Update() bool { return golden.FlagUpdate() }

// Match checks that a file contains a text. With the flag -update it writes the file first.
func Match(t *testing.T, file, got string) {
	t.Helper()
	if Update() {
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
