package meaning_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

func TestUnknownParametersNameSimilarOnes(t *testing.T) {
	t.Parallel()
	type unknown = meaning.UnknownParameter
	for _, test := range []struct {
		kind, driver string
		set          map[string]string
		want         []unknown
	}{
		{
			"StorageClass", "nfs.manila.csi.openstack.org",
			map[string]string{
				"type": "x", "shareNetwork": "y", "share-network": "z", "quota": "1",
				"csi.storage.k8s.io/provisioner-secret-name": "s", "csiNodeStageSecretName": "s",
			},
			[]unknown{
				{"quota", ""}, {"share-network", "shareNetworkID"}, {"shareNetwork", "shareNetworkID"},
			},
		},
		{
			"VolumeSnapshotClass", "cinder.csi.openstack.org",
			map[string]string{"force-create": "true", "forceCreate": "true", "availability": "nova"},
			[]unknown{{"availability", ""}, {"forceCreate", "force-create"}},
		},
		{"StorageClass", "disk.example.com", map[string]string{"kind": "x"}, nil},
	} {
		got := meaning.UnknownParameters(test.kind, test.driver, test.set)
		assert.DeepEqual(t, got, test.want)
	}
}
