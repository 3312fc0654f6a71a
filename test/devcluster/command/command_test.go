package command

import (
	"path/filepath"
	"testing"
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
