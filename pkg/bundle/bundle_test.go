package bundle_test

import (
	"io/fs"
	"slices"
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
	for want, index := range map[string]string{
		`"other"`:           "assets: []\nother: 1\n",
		"x.yaml: file does": sampleIndex + "- {name: x.yaml, role: static, side: guest}\n",
	} {
		fsys := sample()
		fsys["generated/standalone/index.yaml"].Data = []byte(index)
		_, err := bundle.Load(fsys, flavour.Standalone)
		assert.Check(t, is.ErrorContains(err, want))
	}
	_, err := bundle.Load(sample(), flavour.HyperShift)
	assert.Check(t, is.ErrorIs(err, fs.ErrNotExist), "a flavour without a bundle")
}

func withText(t *testing.T, texts ...string) *bundle.Bundle {
	t.Helper()
	var assets []bundle.Asset
	for i, text := range texts {
		name := string(rune('a'+i)) + ".yaml"
		assets = append(assets, bundle.Asset{
			Name: name, Role: bundle.Static, Side: flavour.Sides()[i%2], Data: []byte(text),
		})
	}
	return bundle.New(assets)
}

func onBothSides(values map[string]string) map[flavour.Side]map[string]string {
	return map[flavour.Side]map[string]string{flavour.ControlPlane: values, flavour.Guest: values}
}

func TestFillReplacesEarlyPlaceholdersOnly(t *testing.T) {
	t.Parallel()
	const text = "ns: ${NAMESPACE}.${NAMESPACE} ${NODE_NAMESPACE} $(NODE_ID)\nv: ${LOG_LEVEL}\n"
	original := withText(t, text, text)
	filled, err := original.Fill(map[flavour.Side]map[string]string{
		flavour.Sides()[0]: {
			bundle.Namespace: "one", bundle.NodeNamespace: "two", bundle.DriverImage: "", // it is not used
		},
		flavour.Sides()[1]: {bundle.Namespace: "three", bundle.NodeNamespace: "four"},
	})
	assert.NilError(t, err)
	for i, want := range []string{"one.one two", "three.three four"} {
		assert.Check(t, is.Equal(string(filled.Assets()[i].Data),
			"ns: "+want+" $(NODE_ID)\nv: ${LOG_LEVEL}\n"))
		assert.Check(t, is.Equal(string(original.Assets()[i].Data), text), "the original")
	}
}

func TestFillQuotesImagesOfRegistriesWithIPv6(t *testing.T) {
	t.Parallel()
	filled, err := withText(t, "image: ${DRIVER_IMAGE}").Fill(onBothSides(map[string]string{
		bundle.DriverImage: "[fd00::5]:5000/mirror/csi:v1",
	}))
	assert.NilError(t, err)
	assert.Check(t, is.Equal(string(filled.Assets()[0].Data),
		`image: "[fd00::5]:5000/mirror/csi:v1"`))
}

func TestFillListsEveryProblem(t *testing.T) {
	t.Parallel()
	assets := withText(t,
		"a: ${NAMESPACE} ${DRIVER_IMAGE}",
		"b: ${LOG_LEVELS} ${RELEASE_VERSION} ${KUBE_RBAC_PROXY_IMAGE}",
	)
	_, err := assets.Fill(onBothSides(map[string]string{
		bundle.DriverImage: "", bundle.ReleaseVersion: "4\": secret",
	}))
	for _, want := range []string{
		`asset "a.yaml": ${NAMESPACE} has no value`,
		`asset "a.yaml": ${DRIVER_IMAGE} has an empty value`,
		`asset "b.yaml": ${LOG_LEVELS} has no value`,
		`asset "b.yaml": the value of ${RELEASE_VERSION} is not plain text`,
		`asset "b.yaml": ${KUBE_RBAC_PROXY_IMAGE} has no value`,
	} {
		assert.Assert(t, is.ErrorContains(err, want))
	}
	assert.Check(t, !strings.Contains(err.Error(), "secret"), "the error shows a value: %v", err)
}

func TestPlaceholdersAreSortedAndUnique(t *testing.T) {
	t.Parallel()
	got := bundle.Placeholders([]byte("${B} ${A}${B} $C $(D) {E} ${"))
	assert.Check(t, is.DeepEqual([]string{"A", "B"}, got))
	for _, name := range bundle.Early() {
		assert.Check(t, !slices.Contains(bundle.Late(), name), "${%s} is both early and late", name)
	}
}
