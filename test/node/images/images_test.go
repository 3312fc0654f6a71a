package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// Otherwise a cluster that is not OpenShift runs programs that no test runs.
func TestDefaultImagesAreTheVersionsOnRealNodes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("programs/go.mod")
	assert.NilError(t, err)
	versions := strings.Join(strings.Fields(string(text)), " ")
	all, _, err := recipesIn("../../..")
	assert.NilError(t, err)
	compared := 0
	for _, r := range all {
		module, _, found := strings.Cut(r.module, "/cmd/")
		if !found { // a stand-in, an operator or an image of Kubernetes' tests
			continue
		}
		compared++
		_, tag, _ := strings.Cut(filepath.Base(r.image), ":")
		assert.Check(t, strings.Contains(versions, " "+module+" "+tag+" "),
			"programs/go.mod contains another version of %s than %s", module, r.image)
	}
	assert.Check(t, compared == 7,
		"compared %d images, want four sidecars, two drivers and snapshot-controller", compared)
}
