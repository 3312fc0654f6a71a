package cloud

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

func TestOutage(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]simulator.Fault{
		"503":         {Mode: simulator.Status, Status: 503},
		"hang":        {Mode: simulator.Hang},
		"slow":        {Mode: simulator.Slow, Delay: slowness},
		DefaultOutage: {Mode: simulator.Unreachable},
	} {
		got, err := Outage(kind)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
	for _, kind := range []string{"", "status", "tired"} {
		if _, err := Outage(kind); err == nil {
			t.Errorf("%q: no error", kind)
		}
	}
}

// Every kind the help text offers must be accepted by the simulator.
func TestOutageKindsWork(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range strings.Split(OutageKinds(), ", ") {
		fault, err := Outage(kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Client().SetFault(t.Context(), fault); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
