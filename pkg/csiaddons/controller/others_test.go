package controller

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
)

func TestOtherControllersCountOnlyInNamespacesOfAdministrators(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name                 string
		groups, listed, want []string
	}{
		{"plain Kubernetes", []string{"apps/v1"}, nil, []string{"own"}},
		{"listed", []string{"apps/v1"}, []string{"a", "own"}, []string{"a", "own"}},
		{
			"OpenShift",
			[]string{"apps/v1", "config.openshift.io/v1"},
			[]string{"a"},
			[]string{"a", "openshift-storage", "own"},
		},
	} {
		cluster := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}
		for _, group := range test.groups {
			cluster.Resources = append(cluster.Resources, &metav1.APIResourceList{GroupVersion: group})
		}
		found, err := otherNamespaces(cluster, &settings.Settings{
			Namespace: "own", OtherNamespaces: test.listed,
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(found))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
