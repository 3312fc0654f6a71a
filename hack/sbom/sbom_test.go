package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunExplainsWhatIsWrong(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no program":      {code: 2, want: "name at least one program"},
		"missing program": {args: []string{"/missing"}, code: 1, want: "no such file"},
		"no Go program":   {args: []string{script}, code: 1, want: script + ": reading the build"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			code := run(test.args, &stdout, &stderr)
			if code != test.code || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("exit code %d, %q; want %d, %q", code, stderr.String(), test.code, test.want)
			}
		})
	}
}
