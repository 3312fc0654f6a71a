package images

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/assets"
)

// The devcluster installs the controller of snapshots from its manifest.
func TestImageOfTheSnapshotControllerIsThatOfItsManifest(t *testing.T) {
	t.Parallel()
	manifest, err := fs.ReadFile(assets.Installations(), "snapshots/controller.yaml")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(recipes(), func(r recipe) bool { return r.name == "snapshot-controller" })
	if image := recipes()[i].image; !strings.Contains(string(manifest), "image: "+image+"\n") {
		t.Errorf("the manifest does not use %s", image)
	}
}
