package cloud

import (
	"path/filepath"
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
			path := filepath.Join(t.TempDir(), "cloud.json")
			if err := Save(path, s.Info()); err != nil {
				t.Fatal(err)
			}
			client, err := Connect(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Describe(t.Context(), client)
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

func TestConnectWithoutSimulator(t *testing.T) {
	t.Parallel()
	if _, err := Connect(filepath.Join(t.TempDir(), "cloud.json")); err == nil {
		t.Error("no error")
	}
}
