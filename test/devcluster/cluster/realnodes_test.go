package cluster

import (
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

func TestMissingImagesAreNamed(t *testing.T) {
	t.Parallel()
	err := (&Nodes{}).addImages(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "listing the images of a node") {
		t.Errorf("without a source tree: got error %v", err)
	}
}

func TestFolderIsClaimedOnce(t *testing.T) {
	t.Parallel()
	dir := paths.Dir(t.TempDir())
	claim, _, err := Claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Claim(dir); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("the second claim returned error %v", err)
	}
	if err := claim.Close(); err != nil {
		t.Fatal(err)
	}
	again, _, err := Claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
