//go:build integration

package newdriver_test

// Files of the demo driver, relative to assets/.
const (
	manifest   = "drivers/demo/driver.yaml"
	csiDriver  = "drivers/demo/base/csidriver.yaml"
	class      = "drivers/demo/base/storageclass.yaml"
	controller = "drivers/demo/patches/controller.yaml"
	node       = "drivers/demo/patches/node.yaml"
)

// mistakes are those that used to deploy: all conditions were good, and no volume was ever mounted.
func mistakes() map[string]mistake {
	return map[string]mistake{
		"field misspelt in an object": {
			file: csiDriver, old: "attachRequired:", new: "attachRequird:", at: "attachRequird",
			want: `"csidriver.yaml": unknown field "spec.attachRequird"`,
		},
		"field misspelt in a patch": {
			file: controller, old: "volumeMounts:", new: "volumeMount:", at: "volumeMount:",
			want: `"controller.yaml": unknown field "spec.template.spec.containers[0].volumeMount"`,
		},
		"field at the wrong level": {
			file: node, old: "spec:\n  template:\n", new: "spec:\n  hostPID: true\n  template:\n",
			at:   "hostPID",
			want: `"node.yaml": unknown field "spec.hostPID"`,
		},
		"second YAML document": {
			file: class,
			new:  "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: second}\n",
			at:   "---",
			want: "a second YAML document",
		},
		"class on the controller side": {
			file: manifest, old: "base/storageclass.yaml, side: guest",
			new: "base/storageclass.yaml, side: controller", at: "storageclass.yaml",
			want: `"storageclass.yaml" is a StorageClass: its side is "guest", not "controller"`,
		},
		"container misspelt in a workload patch": {
			file: node, old: "name: csi-driver", new: "name: csi-drivr", at: "csi-drivr",
			want: `container "csi-drivr" of "node.yaml" has no image`,
		},
		"port that is none": {
			file: manifest, old: "liveness: ", new: "liveness: 9", at: "liveness: 9", want: "port 91031",
		},
		"port of another driver": {
			file: manifest, old: "registrar: ", new: "registrar: 10300, metricsFrom: ",
			at: "registrar: 10300", want: "host port clash: 10300",
		},
		"prefix of another driver": {
			file: manifest, old: "prefix: demo-csi-driver", new: "prefix: manila-csi-driver",
			at:   "prefix: manila",
			want: `prefix "manila-csi-driver" is also the prefix of driver "manila"`,
		},
		"CSI name of another driver": {
			file: manifest, old: "name: demo.csi", new: "name: cinder.csi", at: "name: cinder.csi",
			want: `name "cinder.csi.openstack.org" is also the name of driver "cinder"`,
		},
		"class of another driver": {
			file: class, old: "name: ${prefix}", new: "name: standard-csi", at: "storageclass.yaml",
			atFile: manifest,
			want:   `"storageclass.yaml" is an object that drivers/cinder/driver.yaml:`,
		},
		"class for another driver's volumes": {
			file: class, old: "provisioner: ${name}", new: "provisioner: cinder.csi.openstack.org",
			at:   "provisioner:",
			want: `"storageclass.yaml": provisioner is "cinder.csi.openstack.org"`,
		},
		"workload of another driver": {
			file: manifest, old: "name: demo-csi-driver-node", new: "name: openstack-cinder-csi-driver-node",
			at:   "name: openstack-cinder-csi-driver-node",
			want: `"node.yaml" is an object that drivers/cinder/driver.yaml:`,
		},
		"selector of another driver": {
			file: manifest, old: "{app: demo-csi-driver-node}",
			new: "{app: openstack-cinder-csi-driver-node}", at: "{app: openstack-cinder",
			want: "the selector matches pods of the node part at drivers/cinder/driver.yaml:",
		},
		"no node-driver-registrar": {
			file: manifest, old: "  - {use: node-driver-registrar}\n", new: "", at: "node:",
			want: `the node part has no sidecar "node-driver-registrar"`,
		},
		"no attacher": {
			file: manifest, old: "  - {use: attacher, args: [--timeout=3m]}\n", new: "",
			at: "attachRequired:", atFile: csiDriver,
			want: `"csidriver.yaml": attachRequired is true`,
		},
		"placeholder without braces": {
			file: class, old: "provisioner: ${name}", new: "provisioner: $name", at: "provisioner:",
			want: "$name is not a placeholder: write ${name}",
		},
		"malformed prefix": {
			file: manifest, old: "prefix: demo-csi-driver", new: "prefix: Demo_CSI", at: "prefix: Demo_CSI",
			want: `prefix: Invalid value: "Demo_CSI": `,
		},
	}
}
