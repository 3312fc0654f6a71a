package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// The documentation promises K8S_BIN_DIR. Not parallel: it sets the environment.
func TestPlacesUseTheEnvironmentWithoutFlags(t *testing.T) {
	folder := t.TempDir()
	for name, test := range map[string]struct{ flag, variable, want string }{
		"flag":     {folder, "/elsewhere", folder},
		"variable": {"", folder, folder},
		"neither":  {"", "", "k8s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("K8S_BIN_DIR", test.variable)
			f := flags{binaries: test.flag}
			got, err := f.places()
			if err != nil {
				t.Fatal(err)
			}
			want := test.want
			if !filepath.IsAbs(want) {
				want = filepath.Join(got.bin, want)
			}
			if got.binaries != want {
				t.Errorf("the folder is %s, want %s", got.binaries, want)
			}
		})
	}
}

func TestRunLeavesFoldersOfOtherProgramsAlone(t *testing.T) {
	t.Parallel()
	foreign, bin := t.TempDir(), t.TempDir()
	file := filepath.Join(foreign, "openstack")
	if err := os.WriteFile(file, []byte("foreign"), 0o600); err != nil {
		t.Fatal(err)
	}
	operator := filepath.Join(bin, "manila-operator")
	if err := process.WriteProgram(operator, []byte("#!/bin/sh\n")); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"run"}, {"cloud", "serve"}} {
		var out bytes.Buffer
		code := Main(append(command, "--dir="+foreign, "--bin="+bin), &out, &out)
		if code != 1 || !strings.Contains(out.String(), "is not the folder of a devcluster") {
			t.Errorf("%q: exit status %d, output %q", command, code, out.String())
		}
	}
	files, err := os.ReadDir(foreign)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil || string(content) != "foreign" || len(files) != 1 {
		t.Errorf("the folder contains %v, the file %q, %v", files, content, err)
	}
}
