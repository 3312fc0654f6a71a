package operator

import (
	"slices"
	"testing"
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
		if got := slices.Contains(env, entry); got != want {
			t.Errorf("%s is there: %t, want %t", entry, got, want)
		}
	}
}
