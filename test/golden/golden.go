// Package golden compares the output of tests with golden files.
package golden

import (
	"os"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"
)

// Update returns whether the flag -update asks tests to write golden files.
func Update() bool { return golden.FlagUpdate() }

// Match checks that a file contains a text. With the flag -update it writes the file first.
func Match(t *testing.T, file, got string) {
	t.Helper()
	if Update() {
		assert.NilError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual(string(want), got), "not as in %s, which -update writes", file)
}
