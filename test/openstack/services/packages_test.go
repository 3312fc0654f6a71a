package services

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestPackagesAreThoseOfMakeTestRoot(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../../hack/root-packages.sh")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.FieldsFunc(string(script), func(r rune) bool {
		return strings.ContainsRune(" \t\n()", r)
	})
	for _, name := range packages() {
		if !slices.Contains(words, name) {
			t.Errorf("hack/root-packages.sh does not contain %s", name)
		}
	}
}

func TestMissingPackagesAreNamedInOneLine(t *testing.T) {
	t.Parallel()
	const want = "run, as root, " +
		"RUNLEVEL=1 apt-get install --no-install-recommends python3-nova python3-cinder"
	got := missingError([]string{"python3-nova", "python3-cinder"}).Error()
	if !strings.HasSuffix(got, want) || strings.Contains(got, "\n") {
		t.Errorf("the error is %q, want one line that ends with %q", got, want)
	}
}
