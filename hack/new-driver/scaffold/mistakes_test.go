package scaffold

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/openstack-csi/csi-operator/pkg/generator"
)

// Files of the driver demo, relative to assets/.
const (
	manifest   = "drivers/demo/driver.yaml"
	csiDriver  = "drivers/demo/base/csidriver.yaml"
	class      = "drivers/demo/base/storageclass.yaml"
	controller = "drivers/demo/patches/controller.yaml"
	node       = "drivers/demo/patches/node.yaml"
)

// TestMistakesInNewDriversAreNamed makes mistakes that people make with the files of a new driver.
// The generator must name file and line of each: the operator would deploy most of them.
func TestMistakesInNewDriversAreNamed(t *testing.T) {
	t.Parallel()
	for name, made := range mistakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := assetsWithDemo(t)
			maps.DeleteFunc(tree, func(file string, _ *fstest.MapFile) bool { // to be quick
				return strings.HasPrefix(file, "drivers/") && !strings.HasPrefix(file, "drivers/demo/")
			})
			made.edit(t, tree)
			made.check(t, tree, generate(tree))
		})
	}
}

// TestConflictsOfNewDriversAreNamed makes several mistakes at once, because the generator takes
// long for all drivers. If it finds conflicts of names, it searches no others.
func TestConflictsOfNewDriversAreNamed(t *testing.T) {
	t.Parallel()
	for _, conflicts := range []map[string]mistake{nameConflicts(), objectConflicts()} {
		tree := assetsWithDemo(t)
		for _, made := range conflicts {
			made.edit(t, tree)
		}
		message := generate(tree)
		for name, made := range conflicts {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				made.check(t, tree, message)
			})
		}
	}
}

func generate(tree fstest.MapFS) (message string) {
	if _, err := generator.Generate(tree); err != nil {
		message = err.Error()
	}
	return message
}

// assetsWithDemo returns the assets with a new driver.
func assetsWithDemo(t *testing.T) fstest.MapFS {
	t.Helper()
	tree, assets := fstest.MapFS{}, os.DirFS(filepath.Join(repository, "assets"))
	err := fs.WalkDir(assets, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(assets, file)
		tree[file] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := scaffold(repository, "demo")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		if asset, ok := strings.CutPrefix(filepath.ToSlash(file), "assets/"); ok {
			tree[asset] = &fstest.MapFile{Data: text}
		}
	}
	return tree
}

// mistake is a change in a file, and the error that the generator must report.
type mistake struct {
	file, old, new string // an old text of "" is the end of the file
	// at is the text in the line that the error must name, of atFile or else of the same file.
	at, atFile string
	want       string
}

func (m mistake) edit(t *testing.T, tree fstest.MapFS) {
	t.Helper()
	before := string(tree[m.file].Data)
	after := before + m.new
	if m.old != "" {
		after = strings.Replace(before, m.old, m.new, 1)
	}
	if after == before {
		t.Fatalf("%s has no %q", m.file, m.old)
	}
	tree[m.file] = &fstest.MapFile{Data: []byte(after)}
}

// check fails the test if no line of the message begins with the position and the error.
func (m mistake) check(t *testing.T, tree fstest.MapFS, message string) {
	t.Helper()
	file := cmp.Or(m.atFile, m.file)
	before, _, found := strings.Cut(string(tree[file].Data), m.at)
	if !found {
		t.Fatalf("%s has no %q", file, m.at)
	}
	want := fmt.Sprintf("%s:%d: %s", file, strings.Count(before, "\n")+1, m.want)
	if !strings.Contains("\n"+message, "\n"+want) {
		t.Errorf("got error\n%s\nwant a line that starts with\n%s", message, want)
	}
}

// mistakes returns those that the generator finds without other drivers.
func mistakes() map[string]mistake {
	return map[string]mistake{
		"field misspelt in the manifest": {
			file: manifest, old: "clusterPrefix:", new: "clusterPrefx:", at: "clusterPrefx",
			want: `"driver.yaml": unknown field "clusterPrefx"`,
		},
		"file that does not exist": {
			file: manifest, old: "merge: patches/inputs.yaml", new: "merge: patches/input.yaml",
			at:   "patches/input.yaml",
			want: `controller.patches[0].merge: Not found: "drivers/demo/patches/input.yaml"`,
		},
		"mount without a volume": {
			file: controller, old: "name: socket-dir", new: "name: socket", at: "name: socket",
			want: `container "csi-driver" of "controller.yaml" mounts volume "socket"`,
		},
		"port used twice": {
			file: manifest, old: "metricsFrom: 8203", new: "metricsFrom: 9203",
			at: "use: provisioner", want: "port clash inside a pod: 9203 (provisioner-m exposed)",
		},
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
			new: "base/storageclass.yaml, side: controlPlane", at: "storageclass.yaml",
			want: `"storageclass.yaml" is a StorageClass: its side is "guest", not "controlPlane"`,
		},
		"container misspelt in a workload patch": {
			file: node, old: "name: csi-driver", new: "name: csi-drivr", at: "csi-drivr",
			want: `container "csi-drivr" of "node.yaml" has no image`,
		},
		"port that is none": {
			file: manifest, old: "liveness: ", new: "liveness: 9", at: "liveness: 9", want: "port 91031",
		},
		"class for another driver's volumes": {
			file: class, old: "provisioner: ${name}", new: "provisioner: cinder.csi.openstack.org",
			at:   "provisioner:",
			want: `"storageclass.yaml": provisioner is "cinder.csi.openstack.org"`,
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

// nameConflicts returns mistakes with names of other drivers.
func nameConflicts() map[string]mistake {
	return map[string]mistake{
		"prefix of another driver": {
			file: manifest, old: "prefix: demo-csi-driver", new: "prefix: manila-csi-driver",
			at:   "prefix: manila",
			want: `prefix "manila-csi-driver" is also the prefix of driver "manila"`,
		},
		"CSI name of another driver": {
			file: manifest, old: "name: demo.csi", new: "name: cinder.csi", at: "name: cinder.csi",
			want: `name "cinder.csi.openstack.org" is also the name of driver "cinder"`,
		},
	}
}

// objectConflicts returns mistakes with ports and objects of other drivers.
func objectConflicts() map[string]mistake {
	return map[string]mistake{
		"port of another driver": {
			file: manifest, old: "registrar: ", new: "registrar: 10300, metricsFrom: ",
			at: "registrar: 10300", want: "host port clash: 10300",
		},
		"class of another driver": {
			file: class, old: "name: ${prefix}", new: "name: standard-csi", at: "storageclass.yaml",
			atFile: manifest,
			want:   `"storageclass.yaml" is an object that drivers/cinder/driver.yaml:`,
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
	}
}
