package settings

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironmentHasPrecedenceOverChoices(t *testing.T) {
	t.Parallel()
	environment := map[string]string{
		envMaxAccessRules: "7", "CSI_ADDONS_DRIVER_IMAGE": "env", envAPIServerTokens: "",
	}
	lookup := func(name string) (string, bool) {
		value, found := environment[name]
		return value, found
	}
	chosen := Chosen{
		ReleaseLeases: true, APIServerTokens: true, CSIAddonsImage: "chosen", MaxAccessRules: 9,
	}
	for name, want := range map[string]string{
		envMaxAccessRules: "7", envAPIServerTokens: "true", envReleaseLeases: "true",
		"CSI_ADDONS_DRIVER_IMAGE": "env", "CSI_ADDONS_SIDECAR_IMAGE": "chosen", "DRIVER_IMAGE": "",
	} {
		got, found := chosen.After(lookup)(name)
		if diff := cmp.Diff(want, got); diff != "" || found != (want != "") {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got, _ := (Chosen{}).After(lookup)(name); got != environment[name] {
			t.Errorf("without choices, %s is %q", name, got)
		}
	}
}
