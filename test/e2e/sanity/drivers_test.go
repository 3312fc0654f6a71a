//go:build e2e

package sanity

// driver is a driver that csi-sanity tests.
type driver struct {
	name string
	// controller is the Deployment of the controller service, in a namespace.
	namespace, controller string
	// class is the StorageClass with the parameters and Secrets of volumes and snapshots.
	class string
	// failures are the tests that fail, with the reason. The test runs them apart from the others,
	// because they do not clean up, and fails if one of them passes.
	failures map[string]string
}

// minimumPassed is less than the number of tests that apply to each driver. It detects a csi-sanity
// that skips most tests.
const minimumPassed = 40

func drivers() []driver {
	return []driver{
		{
			name: "cinder.csi.openstack.org", namespace: "openstack-csi",
			controller: "openstack-cinder-csi-driver-controller", class: "standard-csi",
			failures: map[string]string{
				"Controller Service [Controller Server] ListVolumes " +
					"should fail when an invalid starting_token is passed": "cinder-csi-plugin 1.36 " +
					"ignores starting_token if max_entries is 0",
			},
		},
		{
			name: "nfs.manila.csi.openstack.org", namespace: "openstack-csi",
			controller: "openstack-manila-csi-controllerplugin", class: "csi-manila-default",
			failures: map[string]string{
				"Node Service NodePublishVolume with single node multi writer capability " +
					"should fail when volume with single node single writer access mode is already " +
					"mounted at a different target path": "manila-csi-plugin 1.36 passes the call to the " +
					"NFS driver, whose stand-in does not count the targets of a volume",
			},
		},
	}
}
