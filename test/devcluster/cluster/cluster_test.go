package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
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
	c.planEnvironments()
	if err := c.assignAddresses(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEnvironmentsHaveTheirOwn(t *testing.T) {
	t.Parallel()
	type environment struct {
		Guest      string
		Dir        paths.Dir
		Namespaces []string
	}
	for name, test := range map[string]struct {
		guests int
		want   []environment
	}{
		"standalone": {want: []environment{
			{
				Dir:        "/d",
				Namespaces: []string{"openshift-cluster-csi-drivers", "openshift-cluster-csi-drivers"},
			},
		}},
		"two guests": {guests: 2, want: []environment{
			{
				Guest: "guest-1", Dir: "/d/guests/guest-1",
				Namespaces: []string{"clusters-guest-1", "clusters-guest-1"},
			},
			{
				Guest: "guest-2", Dir: "/d/guests/guest-2",
				Namespaces: []string{"clusters-guest-2", "clusters-guest-2"},
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var (
				got       []environment
				addresses []string
			)
			for _, s := range planned(t, test.guests).Environments() {
				one := environment{Guest: s.Guest, Dir: s.Dir}
				for _, o := range s.Operators {
					one.Namespaces = append(one.Namespaces, o.Namespace)
					addresses = append(addresses, o.Address)
				}
				got = append(got, one)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("environments (-want +got):\n%s", diff)
			}
			slices.Sort(addresses)
			unique := slices.Compact(slices.Clone(addresses))
			if len(unique) != len(addresses) || unique[0] == "" {
				t.Errorf("two operators share an address: %q", addresses)
			}
		})
	}
}

// Each file of an operator comes from its namespace.
func TestVolumes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		guests    int
		withCloud bool
		want      []string
	}{
		"standalone": {withCloud: true, want: []string{
			"openshift-cluster-csi-drivers/manila-csi-driver-operator-config",
			"openshift-cluster-csi-drivers/openstack-cinder-csi-driver-operator-config",
			"openshift-cluster-csi-drivers/openstack-cloud-credentials",
			"openshift-cluster-csi-drivers/cloud-provider-config",
		}},
		"hosted": {guests: 1, withCloud: true, want: []string{
			"clusters-guest-1/manila-csi-driver-operator-config",
			"clusters-guest-1/openstack-cinder-csi-driver-operator-config",
			"clusters-guest-1/service-network-admin-kubeconfig",
			"clusters-guest-1/openstack-cloud-credentials", "clusters-guest-1/openstack-cloud-config",
		}},
		"without a cloud": {guests: 1, want: []string{
			"clusters-guest-1/manila-csi-driver-operator-config",
			"clusters-guest-1/openstack-cinder-csi-driver-operator-config",
			"clusters-guest-1/service-network-admin-kubeconfig",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environment := planned(t, test.guests).Environments()[0]
			var got []string
			for _, v := range environment.volumes(test.withCloud) {
				got = append(got, v.Namespace+"/"+v.Name)
				for key, path := range v.Files {
					if !strings.HasPrefix(path, string(environment.Dir)+"/") {
						t.Errorf("key %s of %s is shown outside of the environment: %s", key, v.Name, path)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrdersNameWhatThereIsNot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		guests      int
		side        Side
		guest, want string
	}{
		"unknown side":   {side: "dark", want: `side "dark" is not known`},
		"nothing hosted": {side: Guest, guest: "guest-1", want: "there are no guest clusters"},
		"unknown guest": {
			guests: 1, side: Guest, guest: "guest-2", want: `there is no guest cluster "guest-2"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := planned(t, test.guests)
			stopped := c.StopAPI(t.Context(), test.side, test.guest, controlplane.Refuse)
			started := c.StartAPI(t.Context(), test.side, test.guest)
			for _, err := range []error{stopped, started} {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got error %v, want %q", err, test.want)
				}
			}
		})
	}
}
