package bill

import (
	"crypto/sha256"
	"runtime/debug"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

const operators = "github.com/openstack-csi/csi-operator"

func TestSBOMContainsWhatIsLinked(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8 X:strictfipsruntime",
		Path:      operators + "/cmd/manila-operator",
		Main:      debug.Module{Path: operators, Version: "v1.2.0+dirty"},
		Deps: []*debug.Module{
			{Path: "github.com/NYTimes/gziphandler", Version: "v1.1.1", Sum: "h1:a="},
			{Path: "github.com/old/name", Version: "v1.0.0", Replace: &debug.Module{
				Path: "github.com/new/name", Version: "v2.0.0+incompatible", Sum: "h1:b=",
			}},
		},
		Settings: []debug.BuildSetting{{Key: "GOARCH", Value: "arm64"}},
	}
	bom, err := describe(info, sha256.Sum256(nil))
	assert.NilError(t, err)
	got := []string{bom.Metadata.Component.PackageURL}
	for _, library := range *bom.Components {
		got = append(got, library.PackageURL)
	}
	want := []string{
		"pkg:golang/" + operators + "@v1.2.0%2Bdirty#cmd/manila-operator",
		"pkg:golang/stdlib@1.26.8",
		"pkg:golang/github.com/nytimes/gziphandler@v1.1.1",
		"pkg:golang/github.com/new/name@v2.0.0%2Bincompatible",
	}
	assert.Check(t, is.DeepEqual(want, got), "package URLs")
	assert.Check(t, is.Equal(bom.Metadata.Component.Name, "manila-operator"),
		"the name of the program")
}

func TestSBOMRefusesModulesOfUnknownVersion(t *testing.T) {
	t.Parallel()
	_, err := describe(&debug.BuildInfo{Deps: []*debug.Module{{
		Path: "example.com/fork", Version: "v1.0.0", Replace: &debug.Module{Path: "../fork"},
	}}}, sha256.Sum256(nil))
	assert.Check(t, err != nil && strings.Contains(err.Error(), "../fork"),
		"error %v does not name the folder", err)
}
