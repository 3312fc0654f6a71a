package images

// recipe describes how an image is built.
type recipe struct {
	// name is the last part of the name of the image, without the tag.
	name string
	// image is the full name, of an image that no manifest of an operator names.
	image string
	// base is what the image contains besides the program.
	base base
	// module is the package in the Go module of the folder programs, and standin the package of a
	// stand-in. An image of `make images` has neither.
	module, standin string
	// path is the path of the program.
	path string
	// command says that pods name the program in their arguments, so it is no entrypoint.
	command bool
}

// base is a file system below the program.
type base int

const (
	// scratch is empty.
	scratch base = iota
	// tools contains a shell and the tools for file systems, from Debian.
	tools
	// busybox contains Debian's busybox with a link for each of its tools.
	busybox
)

// recipes returns the recipes of all images. The programs of the four stand-ins are in no Go
// module that a proxy serves.
func recipes() []recipe {
	const (
		sidecars  = "github.com/kubernetes-csi/"
		openstack = "k8s.io/cloud-provider-openstack/cmd/"
		tests     = "registry.k8s.io/e2e-test-images/"
		standins  = "./test/node/standin"
	)
	return []recipe{
		{name: "manila-csi-driver-operator"},
		{name: "openstack-cinder-csi-driver-operator"},
		{name: "csi-addons", image: "docker.io/library/csi-addons:latest"},
		{
			name: "cinder-csi-plugin", module: openstack + "cinder-csi-plugin",
			path: "/bin/cinder-csi-plugin", command: true, base: tools,
		},
		// Its init container runs a shell.
		{
			name: "manila-csi-plugin", module: openstack + "manila-csi-plugin",
			path: "/bin/manila-csi-plugin", base: busybox,
		},
		{
			name: "csi-provisioner", module: sidecars + "external-provisioner/v6/cmd/csi-provisioner",
			path: "/csi-provisioner",
		},
		{
			name: "csi-attacher", module: sidecars + "external-attacher/v4/cmd/csi-attacher",
			path: "/csi-attacher",
		},
		{
			name: "csi-resizer", module: sidecars + "external-resizer/v2/cmd/csi-resizer",
			path: "/csi-resizer",
		},
		{
			name: "csi-snapshotter", module: sidecars + "external-snapshotter/v8/cmd/csi-snapshotter",
			path: "/csi-snapshotter",
		},
		{
			name:   "snapshot-controller",
			image:  "registry.k8s.io/sig-storage/snapshot-controller:v8.5.0",
			module: sidecars + "external-snapshotter/v8/cmd/snapshot-controller",
			path:   "/snapshot-controller",
		},
		{
			name: "csi-node-driver-registrar", standin: standins,
			path: "/csi-node-driver-registrar",
		},
		{name: "livenessprobe", standin: standins, path: "/livenessprobe"},
		{name: "kube-rbac-proxy", standin: standins, path: "/usr/local/bin/kube-rbac-proxy"},
		{name: "nfsplugin", standin: standins, path: "/nfsplugin"},
		{
			name: "pause", image: "registry.k8s.io/pause:3.10.1", standin: standins + "/pause",
			path: "/pause",
		},
		// The tests of Kubernetes run commands of a node in a shell of this image.
		{
			name: "agnhost", image: tests + "agnhost:2.63.0",
			module: "k8s.io/kubernetes/test/images/agnhost", path: "/agnhost", base: tools,
		},
		{name: "busybox", image: tests + "busybox:1.37.0-1", base: busybox},
		// It contains no DNS tools: the storage tests only run a shell and dd of GNU in this image.
		{name: "glibc-dns-testing", image: tests + "glibc-dns-testing:2.0.0", base: tools},
		// It contains no nginx: the storage tests only run a shell in this image.
		{name: "nginx", image: tests + "nginx:1.15-4", base: busybox},
	}
}
