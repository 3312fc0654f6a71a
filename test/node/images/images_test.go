package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Otherwise a cluster that is not OpenShift runs programs that no test runs.
func TestDefaultImagesAreTheVersionsOnRealNodes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("programs/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	versions := strings.Join(strings.Fields(string(text)), " ")
	all, _, err := recipesIn("../../..")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, r := range all {
		module, _, found := strings.Cut(r.module, "/cmd/")
		if !found { // a stand-in, an operator or an image of Kubernetes' tests
			continue
		}
		compared++
		_, tag, _ := strings.Cut(filepath.Base(r.image), ":")
		if !strings.Contains(versions, " "+module+" "+tag+" ") {
			t.Errorf("programs/go.mod contains another version of %s than %s", module, r.image)
		}
	}
	if compared != 7 {
		t.Errorf("compared %d images, want four sidecars, two drivers and snapshot-controller", compared)
	}
}
