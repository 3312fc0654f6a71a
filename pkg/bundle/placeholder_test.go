package bundle_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

func withText(t *testing.T, texts ...string) *bundle.Bundle {
	t.Helper()
	var assets []bundle.Asset
	for i, text := range texts {
		name := string(rune('a'+i)) + ".yaml"
		assets = append(assets, bundle.Asset{
			Name: name, Role: bundle.Static, Side: flavour.Guest,
			Data: []byte(text),
		})
	}
	made, err := bundle.New(assets)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func onBothSides(values map[string]string) map[flavour.Side]map[string]string {
	return map[flavour.Side]map[string]string{flavour.ControlPlane: values, flavour.Guest: values}
}

func TestFillUsesTheValuesOfTheSide(t *testing.T) {
	t.Parallel()
	original, err := bundle.New([]bundle.Asset{
		{
			Name: "a.yaml", Role: bundle.Static, Side: flavour.ControlPlane,
			Data: []byte("${DRIVER_IMAGE}"),
		},
		{Name: "b.yaml", Role: bundle.Static, Side: flavour.Guest, Data: []byte("${DRIVER_IMAGE}")},
	})
	if err != nil {
		t.Fatal(err)
	}
	filled, err := original.Fill(map[flavour.Side]map[string]string{
		flavour.ControlPlane: {bundle.DriverImage: "control-plane"},
		flavour.Guest:        {bundle.DriverImage: "guest"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for side, want := range map[flavour.Side]string{
		flavour.ControlPlane: "control-plane", flavour.Guest: "guest",
	} {
		asset := filled.Select(bundle.Static, side)[0]
		if text := string(asset.Data); text != want {
			t.Errorf("%s is %q, want %q", asset.Name, text, want)
		}
	}
}

func TestFillReplacesEarlyPlaceholdersOnly(t *testing.T) {
	t.Parallel()
	original := withText(t, "ns: ${NAMESPACE}.${NAMESPACE} ${NODE_NAMESPACE} $(NODE_ID)\nv: "+
		"${LOG_LEVEL}\n", "plain: text\n")
	filled, err := original.Fill(onBothSides(map[string]string{
		bundle.Namespace: "one", bundle.NodeNamespace: "two", bundle.DriverImage: "",
	}))
	if err != nil {
		t.Fatalf("a value that no asset uses is an error: %v", err)
	}
	text := string(filled.Assets()[0].Data)
	if diff := cmp.Diff("ns: one.one two $(NODE_ID)\nv: ${LOG_LEVEL}\n", text); diff != "" {
		t.Error(diff)
	}
	if text := string(original.Assets()[0].Data); !strings.Contains(text, "${NAMESPACE}") {
		t.Errorf("filling changed the original: %q", text)
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
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`asset "a.yaml": ${NAMESPACE} has no value`,
		`asset "a.yaml": ${DRIVER_IMAGE} has an empty value`,
		`asset "b.yaml": ${LOG_LEVELS} has no value`,
		`asset "b.yaml": the value of ${RELEASE_VERSION} is not plain text`,
		`asset "b.yaml": ${KUBE_RBAC_PROXY_IMAGE} has no value`,
		"${LOG_LEVEL} is not a placeholder to fill",
		"${TYPO} is not a placeholder to fill",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows a value: %v", err)
	}
}

func TestPlaceholdersAreSortedAndUnique(t *testing.T) {
	t.Parallel()
	got := bundle.Placeholders([]byte("${B} ${A}${B} $C $(D) {E} ${"))
	if diff := cmp.Diff([]string{"A", "B"}, got); diff != "" {
		t.Error(diff)
	}
	for _, name := range bundle.Early() {
		if slices.Contains(bundle.Late(), name) {
			t.Errorf("${%s} is both early and late", name)
		}
	}
}
