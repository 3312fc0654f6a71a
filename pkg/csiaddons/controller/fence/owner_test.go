package fence

import (
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

func TestOnlyAddressesOfTheNodeAreClients(t *testing.T) {
	t.Parallel()
	node := owner{
		id: "worker-1",
		addresses: []netip.Addr{
			netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5"),
		},
	}
	class := &v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "shares"},
		Spec: v1alpha1.NetworkFenceClassSpec{Parameters: map[string]string{
			v1alpha1.StorageNetworksParameter: "172.16.0.0/16, fd01::/64",
		}},
	}
	withClass, err := node.in(class)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		id, cidr               string
		valid, validForNetwork bool
	}{
		{"worker-1", "10.0.0.5/32", true, true},
		{"worker-1", "fd00::5/128", true, true},
		{"worker-1", "172.16.3.4/32", false, true},
		{"worker-1", "fd01::4/128", false, true},
		{"worker-1", "10.0.0.6/32", false, false},
		{"worker-1", "10.0.0.5", false, false},
		{"worker-1", "10.0.0.0/24", false, false},
		{"worker-1", "0.0.0.0/0", false, false},
		{"worker-1", "172.16.0.0/24", false, false},
		{"worker-2", "10.0.0.5/32", false, false},
		{"", "10.0.0.5/32", false, false},
	} {
		details := &wire.ClientDetails{Id: test.id, Cidrs: []string{test.cidr}}
		if _, err := node.parse(details); (err == nil) != test.valid {
			t.Errorf("client %s, %s: %v", test.id, test.cidr, err)
		}
		if _, err := withClass.parse(details); (err == nil) != test.validForNetwork {
			t.Errorf("client %s, %s with networks of the class: %v", test.id, test.cidr, err)
		}
	}
	// The IDs of Ceph are those of its clusters.
	ceph := owner{addresses: node.addresses}
	details := &wire.ClientDetails{Id: "a815fe8e", Cidrs: []string{"10.0.0.5/32"}}
	if detail, err := ceph.parse(details); err != nil || detail.ID != "a815fe8e" {
		t.Errorf("client of Ceph: %v, %v", detail, err)
	}
	class.Spec.Parameters[v1alpha1.StorageNetworksParameter] = "172.16.0.0/33"
	if _, err := node.in(class); err == nil {
		t.Error("a class with an invalid network has no error")
	}
}
