package bundle_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const sampleIndex = `assets:
- {name: sa.yaml, role: static, side: guest}
- {name: role.yaml, role: static, side: controlPlane}
- {name: node.yaml, role: nodeWorkload, side: guest}
`

func sample() fstest.MapFS {
	return fstest.MapFS{
		"generated/standalone/index.yaml": {Data: []byte(sampleIndex)},
		"generated/standalone/sa.yaml":    {Data: []byte("kind: ServiceAccount\n")},
		"generated/standalone/role.yaml":  {Data: []byte("kind: Role\n")},
		"generated/standalone/node.yaml":  {Data: []byte("kind: DaemonSet\n")},
	}
}

func TestAssetsForCSIAddonsAreOptional(t *testing.T) {
	t.Parallel()
	fsys := sample()
	loaded, err := bundle.LoadCSIAddons(fsys, flavour.Standalone)
	assert.NilError(t, err)
	_, found := loaded.Find("node.yaml")
	assert.Check(t, !found, "an asset without a folder")
	const folder = "generated/standalone/csi-addons/"
	fsys[folder+"index.yaml"] = &fstest.MapFile{
		Data: []byte("assets:\n- {name: node.yaml, role: nodeWorkload, side: guest}\n"),
	}
	fsys[folder+"node.yaml"] = &fstest.MapFile{Data: []byte("kind: DaemonSet # other\n")}
	_, err = bundle.Load(fsys, flavour.Standalone)
	assert.NilError(t, err)
	loaded, err = bundle.LoadCSIAddons(fsys, flavour.Standalone)
	assert.NilError(t, err)
	got, found := loaded.Find("node.yaml")
	assert.Check(t, found && got.Name == "node.yaml", "the bundle contains %q: %v", got.Name, found)
}

// Load reads what Files returns.
func TestLoadKeepsTheOrderOfTheIndex(t *testing.T) {
	t.Parallel()
	loaded, err := bundle.Load(sample(), flavour.Standalone)
	assert.NilError(t, err)
	want := []bundle.Asset{
		{Name: "sa.yaml", Role: bundle.Static, Side: flavour.Guest},
		{Name: "role.yaml", Role: bundle.Static, Side: flavour.ControlPlane},
		{Name: "node.yaml", Role: bundle.NodeWorkload, Side: flavour.Guest},
	}
	for i, kind := range []string{"ServiceAccount", "Role", "DaemonSet"} {
		want[i].Data = []byte("kind: " + kind + "\n")
	}
	assert.Check(t, is.DeepEqual(want, loaded.Assets()))
	assert.Check(t, is.DeepEqual(want[:1], loaded.Select(bundle.Static, flavour.Guest)))
	assert.Check(t, is.Len(loaded.Select(bundle.StorageClass, flavour.Guest), 0))
	files, err := loaded.Files()
	assert.NilError(t, err)
	saved := fstest.MapFS{}
	for name, text := range files {
		saved[bundle.Folder(flavour.Standalone)+"/"+name] = &fstest.MapFile{Data: text}
	}
	again, err := bundle.Load(saved, flavour.Standalone)
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual(want, again.Assets()))
}

func TestLoadRejectsInvalidFolders(t *testing.T) {
	t.Parallel()
	const listed = sampleIndex + "- {name: %s.yaml, role: static, side: guest}\n"
	for want, index := range map[string]string{
		`"other"`:              "assets: []\nother: 1\n",
		`lists "x.yaml"`:       fmt.Sprintf(listed, "x"),
		"twice":                fmt.Sprintf(listed, "sa"),
		`unknown role "statc"`: strings.Replace(sampleIndex, "nodeWorkload", "statc", 1),
		`unknown side "host"`:  strings.Replace(sampleIndex, "side: guest", "side: host", 1),
		`"node.yaml" is not in the index`: strings.Replace(sampleIndex,
			"- {name: node.yaml, role: nodeWorkload, side: guest}\n", "", 1),
	} {
		fsys := sample()
		fsys["generated/standalone/index.yaml"].Data = []byte(index)
		_, err := bundle.Load(fsys, flavour.Standalone)
		assert.Check(t, is.ErrorContains(err, want))
	}
	_, err := bundle.Load(sample(), flavour.HyperShift)
	assert.Check(t, is.ErrorIs(err, fs.ErrNotExist), "a flavour without a bundle")
}
