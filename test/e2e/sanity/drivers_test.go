//go:build integration

package sanity

// container is a container with a driver.
type container struct {
	namespace, workload, name string
	// program is a file in the folder that hack/e2e.sh filled.
	program string
}

// driver is a driver that csi-sanity tests.
type driver struct {
	// name of the driver, and of its containers in the order of their start: the last is the node
	// service, the one before the controller service.
	name       string
	containers []container
	// class and snapshotClass name the parameters and Secrets of volumes and snapshots.
	class, snapshotClass string
	// failures are the tests that fail, with the reason. The test runs them apart from the others,
	// because they do not clean up, and fails if one of them passes.
	failures map[string]string
}

// minimumPassed is less than the number of tests that apply to each driver. It detects a csi-sanity
// that skips most tests.
const minimumPassed = 40

func drivers() []driver {
	const shared, manila = "openshift-cluster-csi-drivers", "openshift-manila-csi-driver"
	return []driver{
		{
			name: "cinder.csi.openstack.org", class: "standard-csi", snapshotClass: "standard-csi",
			containers: []container{
				{shared, "openstack-cinder-csi-driver-controller", "csi-driver", "cinder-csi-plugin"},
				{shared, "openstack-cinder-csi-driver-node", "csi-driver", "cinder-csi-plugin"},
			},
			failures: map[string]string{
				"Controller Service [Controller Server] ListVolumes " +
					"should fail when an invalid starting_token is passed": "cinder-csi-plugin 1.36 " +
					"ignores starting_token if max_entries is 0",
			},
		},
		{
			name: "manila.csi.openstack.org", class: "csi-manila-default",
			snapshotClass: "csi-manila-standard",
			containers: []container{
				{manila, "csi-nodeplugin-nfsplugin", "csi-driver", "nfsplugin"},
				{manila, "openstack-manila-csi-controllerplugin", "csi-driver-nfs", "nfsplugin"},
				{manila, "openstack-manila-csi-controllerplugin", "csi-driver", "manila-csi-plugin"},
				{manila, "openstack-manila-csi-nodeplugin", "csi-driver", "manila-csi-plugin"},
			},
			failures: map[string]string{
				"Node Service NodePublishVolume with single node multi writer capability " +
					"should fail when volume with single node single writer access mode is already " +
					"mounted at a different target path": "manila-csi-plugin 1.36 passes the call to the " +
					"NFS driver, whose stand-in does not count the targets of a volume",
			},
		},
	}
}
