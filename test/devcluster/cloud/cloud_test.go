package cloud

import (
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	for name, tls := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Start(t.Context(), tls)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Describe(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.Clouds, s.Info().AuthURL) || got.Region != simulator.DefaultRegion {
				t.Errorf("described as region %q and\n%s", got.Region, got.Clouds)
			}
			if strings.Contains(got.CA, "BEGIN CERTIFICATE") != tls {
				t.Errorf("CA is %q", got.CA)
			}
		})
	}
}
