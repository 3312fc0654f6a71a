// Package architecture_test checks the rules about packages that linters cannot check: levels,
// names, what a program links, and the build tags of tests.
package architecture_test

// level is the level of a folder, in which `*` matches one path element.
type level struct {
	number int
	folder string
}

// levels returns the levels of folders; see docs/architecture.md. The first that matches a package
// counts. A package imports only packages of lower levels; tests may import packages of any level.
// A change of a level needs a decision record.
func levels() []level {
	return []level{
		{0, "assets"},
		{0, "docs"},
		{0, "pkg/flavour"},
		{0, "pkg/patch"},
		{1, "pkg/clouds"},
		{3, "pkg/openstack/shares"},
		{2, "pkg/openstack"},
		{0, "pkg/version"},
		{0, "pkg/lease"},
		{0, "pkg/nodeprobe"},
		{1, "pkg/host"},
		{0, "pkg/position"},
		{0, "hack/sbom/bill"},
		{0, "pkg/csiaddons/api"},
		{0, "pkg/csiaddons/wire"},
		{0, "pkg/csiaddons/driver"},
		{1, "pkg/csiaddons/identity"},
		{3, "pkg/csiaddons/manilanode"},
		{3, "pkg/choice/classes"},
		{1, "pkg/choice"},
		{2, "pkg/api"},
		{3, "pkg/charts"},
		{1, "pkg/diagnosis"},
		{1, "pkg/guest"},
		{1, "pkg/settings"},
		{1, "pkg/bundle"},
		{1, "legacy"},
		{2, "pkg/csiaddons/controller/connection"},
		{3, "pkg/csiaddons/controller/fence"},
		{2, "pkg/cluster"},
		{2, "pkg/generator"},
		{3, "pkg/cloudprobe"},
		{3, "pkg/credential"},
		{3, "pkg/hook"},
		{3, "pkg/zones"},
		{4, "pkg/storageclass"},
		{4, "pkg/plugin"},
		{4, "pkg/csiaddons/cinder"},
		{4, "pkg/csiaddons/manila"},
		{5, "pkg/operator"},
		{5, "pkg/drivers/*"},
		{5, "pkg/csiaddons/*"},
		{0, "pkg/kubectl/fault"},
		{2, "pkg/kubectl/meaning"},
		{5, "pkg/kubectl"},
		{6, "cmd/*"},
		{3, "hack/new-driver/scaffold"},
		{6, "hack/*"},
		{7, "test/openstack"},
		{6, "test/devcluster/process"},
		{6, "test/generations"},
		{7, "test/node"},
		{9, "test/e2e"},
		{8, "test/*"},
	}
}

// apart is a level whose folders do not import each other, not even in tests.
const apart = 5

// meaningless are names of packages that do not say what a package contains.
func meaningless() []string {
	return []string{
		"base", "common", "helper", "helpers", "lib", "misc", "shared", "tools", "types", "util",
		"utils",
	}
}

// program is a folder of main packages and what they must not link: import paths, or folders of the
// module after `./`.
type program struct {
	folder string
	not    []string
}

// programs returns what the programs must not contain.
func programs() []program {
	return []program{
		{"cmd/*-operator", []string{
			"sigs.k8s.io/kustomize/kyaml", "./pkg/patch", "./pkg/generator", "./pkg/csiaddons",
			"./pkg/kubectl",
			"./test", "testing", "net/http/httptest", "github.com/google/go-containerregistry",
		}},
		{"cmd/csi-addons*", []string{
			"github.com/gophercloud/gophercloud/v2",
			"./pkg/drivers", "./pkg/operator", "./pkg/plugin", "./pkg/host", "./pkg/generator",
			"./test", "testing", "net/http/httptest",
		}},
		{"cmd/kubectl-*", []string{
			"./pkg/drivers", "./pkg/operator", "./pkg/plugin", "./pkg/host", "./pkg/generator",
			"./test", "testing", "net/http/httptest",
		}},
		{"cmd/openstack-csi-addons", []string{
			"./pkg/drivers", "./pkg/operator", "./pkg/plugin", "./pkg/host", "./pkg/generator",
			"./test", "testing", "net/http/httptest", "k8s.io/client-go/kubernetes",
		}},
		{"cmd/asset-generator", []string{
			"./pkg/drivers", "./pkg/operator", "./pkg/plugin", "./test", "testing",
			"k8s.io/client-go",
		}},
	}
}
