package flavour_test

import (
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, want := range flavour.All() {
		got, err := flavour.Parse(string(want))
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %q, %v", want, got, err)
		}
	}
}

func TestUnknownFlavourIsNamed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Standalone", "microshift"} {
		var f flavour.Flavour
		err := f.UnmarshalText([]byte(name))
		if err == nil || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("UnmarshalText(%q) = %v, want an error naming it", name, err)
		}
		if f != "" {
			t.Errorf("UnmarshalText(%q) changed the flavour to %q", name, f)
		}
	}
}
