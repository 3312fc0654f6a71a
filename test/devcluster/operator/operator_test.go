package operator

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestEnvironmentIsThatOfAPod(t *testing.T) {
	t.Setenv("OS_CLOUD", "mine")
	t.Setenv("NO_PROXY", "example.com")
	t.Setenv("HTTP_PROXY", "proxy.example.com")
	env := Runner{Env: []string{"GREETING=hello"}}.Environment("NO_PROXY")
	for entry, want := range map[string]bool{
		"GREETING=hello": true, "NO_PROXY=example.com": true, "OS_CLOUD=mine": false,
		"HTTP_PROXY=proxy.example.com": false,
	} {
		assert.Check(t, is.Equal(slices.Contains(env, entry), want), "%s is there", entry)
	}
}
