package bundle_test

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

func withText(t *testing.T, texts ...string) *bundle.Bundle {
	t.Helper()
	var assets []bundle.Asset
	for i, text := range texts {
		name := string(rune('a'+i)) + ".yaml"
		assets = append(assets, bundle.Asset{
			Name: name, Role: bundle.Static, Side: flavour.Sides()[i%2], Data: []byte(text),
		})
	}
	made, err := bundle.New(assets)
	assert.NilError(t, err)
	return made
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

func TestFillListsEveryProblem(t *testing.T) {
	t.Parallel()
	assets := withText(t,
		"a: ${NAMESPACE} ${DRIVER_IMAGE}",
		"b: ${LOG_LEVELS} ${RELEASE_VERSION} ${KUBE_RBAC_PROXY_IMAGE}",
	)
	_, err := assets.Fill(onBothSides(map[string]string{
		bundle.DriverImage: "", bundle.ReleaseVersion: "4\": secret", bundle.LogLevel: "2", "TYPO": "x",
	}))
	for _, want := range []string{
		`asset "a.yaml": ${NAMESPACE} has no value`,
		`asset "a.yaml": ${DRIVER_IMAGE} has an empty value`,
		`asset "b.yaml": ${LOG_LEVELS} has no value`,
		`asset "b.yaml": the value of ${RELEASE_VERSION} is not plain text`,
		`asset "b.yaml": ${KUBE_RBAC_PROXY_IMAGE} has no value`,
		"${LOG_LEVEL} is not a placeholder to fill",
		"${TYPO} is not a placeholder to fill",
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
