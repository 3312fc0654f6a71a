package command

import (
	"path/filepath"
	"testing"
)

// TestBinaries: the flag wins over K8S_BIN_DIR, which wins over the source tree.
func TestBinaries(t *testing.T) {
	t.Setenv("K8S_BIN_DIR", "") // which forbids to run in parallel
	repository, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ flag, variable, want string }{
		{"", "", filepath.Join(repository, "bin", "k8s")},
		{"", "/of/variable", "/of/variable"},
		{"/of/flag", "/of/variable", "/of/flag"},
	} {
		t.Setenv("K8S_BIN_DIR", test.variable)
		p, err := (&flags{binaries: test.flag}).places()
		if err != nil || p.binaries != test.want {
			t.Errorf("flag %q, variable %q: got %q (%v), want %q",
				test.flag, test.variable, p.binaries, err, test.want)
		}
	}
}
