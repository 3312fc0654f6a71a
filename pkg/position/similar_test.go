package position_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

func TestMostSimilarNameSharesBothEnds(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"gold-ssdx": "gold-ssd", "gold-sd": "gold-ssd", "god-hdx": "gold-hdx", "silver": "", "": "",
	} {
		got := position.Similar([]string{"gold-hdx", "gold-ssd"}, name)
		assert.Check(t, got == want, "%q: %q, want %q", name, got, want)
	}
}
