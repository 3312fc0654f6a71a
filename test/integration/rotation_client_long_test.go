//go:build integration && long

package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// TestRotationScriptFindsItsClient runs the script with programs that only print their names.
func TestRotationScriptFindsItsClient(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		installed       []string
		variable, wants string
	}{
		"oc first":          {[]string{"oc", "kubectl"}, "", "this is oc"},
		"else kubectl":      {[]string{"kubectl"}, "", "this is kubectl"},
		"the variable wins": {[]string{"oc", "mine"}, "KUBECTL=mine", "this is mine"},
		"neither":           {nil, "", "There is no oc or kubectl. Install it, or set KUBECTL"},
		"not the variable":  {[]string{"oc"}, "KUBECTL=mine", "There is no mine. Install it, or set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for _, client := range test.installed {
				text := "#!/bin/sh\necho this is " + client + " >&2\nexit 1\n"
				err := process.WriteProgram(filepath.Join(folder, client), []byte(text))
				if err != nil {
					t.Fatal(err)
				}
			}
			script := filepath.Join(repository, "hack", "rotate-credentials.sh")
			cmd := exec.CommandContext(t.Context(), bash, script, "--undo")
			cmd.Env = []string{"PATH=" + folder, test.variable}
			output, err := cmd.CombinedOutput()
			if err == nil || !strings.HasPrefix(string(output), test.wants) {
				t.Errorf("the script ended with %v:\n%s\nwant an error and %q", err, output, test.wants)
			}
		})
	}
}
