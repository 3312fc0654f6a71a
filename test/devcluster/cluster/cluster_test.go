package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// planned returns a cluster that is not started.
func planned(t *testing.T, guests int) *Cluster {
	t.Helper()
	operators, err := fixtures.Operators([]string{"manila", "cinder"})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{
		opts: Options{Dir: "/d", Operators: operators, Guests: guests}, management: &controlPlane{},
	}
	if err := errors.Join(c.planEnvironments(), c.assignAddresses(t.Context())); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOperatorsHaveAddressesAndFoldersOfTheirOwn(t *testing.T) {
	t.Parallel()
	for guests, want := range map[int][]string{
		0: {"/d openshift-cluster-csi-drivers", "/d openshift-cluster-csi-drivers"},
		2: {
			"/d/guests/guest-1 clusters-guest-1", "/d/guests/guest-1 clusters-guest-1",
			"/d/guests/guest-2 clusters-guest-2", "/d/guests/guest-2 clusters-guest-2",
		},
	} {
		var got, addresses []string
		for _, s := range planned(t, guests).Environments() {
			for _, o := range s.Operators {
				got = append(got, string(s.Dir)+" "+o.Namespace)
				addresses = append(addresses, o.Address)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("folders and namespaces with %d guests (-want +got):\n%s", guests, diff)
		}
		slices.Sort(addresses)
		unique := slices.Compact(slices.Clone(addresses))
		if len(unique) != len(addresses) || unique[0] == "" {
			t.Errorf("two of %d guests share an address: %q", guests, addresses)
		}
	}
}

func TestRequestsNameUnknownClusters(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct {
		guests int
		side   flavour.Side
	}{
		`side "dark" is not in`:               {side: "dark"},
		"there are no guest clusters":         {side: flavour.Guest},
		`there is no guest cluster "guest-2"`: {side: flavour.Guest, guests: 1},
	} {
		err := planned(t, test.guests).StopAPI(t.Context(), test.side, "guest-2", controlplane.Refuse)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}
