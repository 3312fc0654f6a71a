package node

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestPackagesAreThoseOfMakeTestRoot(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../hack/root-packages.sh")
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
