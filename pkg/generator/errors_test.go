package generator_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/generator"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

const (
	one       = "drivers/one/driver.yaml"
	two       = "drivers/two/driver.yaml"
	csidriver = "  - {file: base/csidriver.yaml, side: guest, role: csiDriver}\n"
	all       = `["controller.yaml" "csidriver.yaml" "node.yaml" "node_sa.yaml" "pdb.yaml" ` +
		`"provisioner_binding.yaml" "service.yaml" "snapshots_binding.yaml"]`
	withoutBudget = `["controller.yaml" "csidriver.yaml" "node.yaml" "node_sa.yaml" ` +
		`"provisioner_binding.yaml" "service.yaml" "snapshots_binding.yaml"]`
	volumes = "  - {target: controller.yaml, merge: patches/volume.yaml}\n"
)

// mistake is a change that breaks the valid tree, and the expected error.
type mistake struct {
	want  string
	edits []edit
}

// broken returns a mistake. Its edits are files, each with an old and a new text.
func broken(want string, edits ...string) mistake {
	made := mistake{want: want}
	for change := range slices.Chunk(edits, 3) {
		made.edits = append(made.edits, edit{change[0], change[1], change[2]})
	}
	return made
}

// manifestMistakes returns mistakes in a driver.yaml, a sidecar.yaml or a layer.yaml, and patches
// without target or effect.
func manifestMistakes() map[string]mistake {
	return map[string]mistake{
		"unknown key in driver.yaml": broken(one+`:3: "driver.yaml": unknown field "prefx"`,
			one, "prefix: one\n", "prefix: one\nprefx: one\n"),
		"unknown key in a sidecar": broken(`sidecars/provisioner/sidecar.yaml:6: "sidecar.yaml": `+
			`unknown field "wiht"`,
			"sidecars/provisioner/sidecar.yaml", "with:", "wiht:"),
		"unknown key in a layer": broken(`base/layer.yaml:6: "layer.yaml": unknown field "nodes"`,
			"base/layer.yaml", "node:", "nodes:"),
		"manifest is not YAML": broken(two+":6: did not find expected ',' or ']'",
			two, "  name: two-node\n", "  name: [\n"),
		"condition for a flavour that does not exist": broken(`base/layer.yaml:5: only: "Standalone" `+
			`is not one of ["standalone" "hypershift" "kubernetes"]`,
			"base/layer.yaml", "only: [standalone]", "only: [Standalone]"),
		"flavour that does not exist": broken(two+`:4: flavours: "standalon" is not one of `+
			`["standalone" "hypershift" "kubernetes"]`,
			two, "[standalone]", "[standalon]"),
		"side that does not exist": broken(one+`:21: "csidriver.yaml" has side "gest", not one of `+
			`["controlPlane" "guest"]`,
			one, "side: guest, role: csiDriver", "side: gest, role: csiDriver"),
		"part that does not exist": broken(`sidecars/provisioner/sidecar.yaml:5: part: "nod" is not `+
			`one of ["controller" "node"]`,
			"sidecars/provisioner/sidecar.yaml", "provisioner_binding.yaml, side: guest",
			"provisioner_binding.yaml, part: nod, side: guest"),
		"required keys are missing": broken(two+":1: flavours is missing\n"+two+
			":1: name is missing\n"+two+":3: node.name is missing\n"+two+
			":3: node.selector is missing\n"+two+":3: node.workload is missing",
			two, "name: two.csi.example.com\n", "", two, "flavours: [standalone]\n", "",
			two, "  selector: {app: two}\n", "", two, "  name: two-node\n", "",
			two, "  workload: patches/node.yaml\n", "", "drivers/two/patches/node.yaml", "", ""),
		"patch of two kinds": broken(one+":13: a patch has either merge or json6902",
			one, "merge: patches/volume.yaml", "merge: patches/volume.yaml, json6902: patches/args.yaml"),
		"sidecar for a flavour that does not exist": broken(`sidecars/kube-rbac-proxy/sidecar.yaml:3: `+
			`only: "standalon" is not one of ["standalone" "hypershift" "kubernetes"]`,
			"sidecars/kube-rbac-proxy/sidecar.yaml", "each:", "only: [standalon]\neach:"),
		"patch without target": broken(one+`:13: patch "patches/volume.yaml" has no target: there `+
			`is no "controler.yaml", only `+all+"\n"+one+`:13: patch "patches/volume.yaml" has `+
			`no target: there is no "controler.yaml", only `+withoutBudget,
			one, volumes, strings.Replace(volumes, "controller.yaml", "controler.yaml", 1)),
		"patch for a container that does not exist": broken(one+
			`:14: "controller.yaml" has no container "csi-drive"`,
			one, "container: csi-driver", "container: csi-drive"),
		"driver leaves out a file that the base does not have": broken(two+
			`:10: the base has no "sa.yaml"`,
			two, "[node_sa.yaml]", "[node_sa.yaml, sa.yaml]"),
		"merge that changes nothing": broken(one+`:13: patch "patches/volume.yaml" changes nothing `+
			`in "controller.yaml"`,
			"drivers/one/patches/volume.yaml", "", "metadata: {name: one-controller}"),
		"operations that change nothing": broken(one+`:14: patch "patches/args.yaml" changes `+
			`nothing in "controller.yaml"`,
			"drivers/one/patches/args.yaml", "", "- {op: test, path: /name, value: csi-driver}"),
		"operation without target": broken("drivers/one/patches/args.yaml:1: patching "+
			"\"controller.yaml\": applying patch: error in remove for path: "+
			"'/spec/template/spec/containers/0/nowhere': unable to remove nonexistent key: nowhere: "+
			"missing value",
			"drivers/one/patches/args.yaml", "", "- {op: remove, path: /nowhere}"),
		"layer is not YAML": broken("base/pdb.yaml:3: did not find expected ',' or ']'",
			"base/pdb.yaml", "metadata:\n", "metadata: [\n"),
	}
}

// outputMistakes returns files and outputs that are missing or superfluous, and ports that clash or
// that no container serves.
func outputMistakes() map[string]mistake {
	return map[string]mistake{
		"unused file": broken("base/stray.yaml:1: no manifest uses this file\n"+
			"drivers/one/patches/stray.yaml:1: no manifest uses this file\n"+
			"sidecars/provisioner/stray.yaml:1: no manifest uses this file",
			"base/stray.yaml", "", "a: b", "drivers/one/patches/stray.yaml", "", "a: b",
			"sidecars/provisioner/stray.yaml", "", "a: b", "drivers/two/README.md", "", "is allowed",
			"drivers/two/generated/standalone/stray.yaml", "", "is output",
			"csi-addons/crd/crd.yaml", "", "is no layer"),
		"file which is not there": broken(one+`:14: open drivers/one/patches/args.yaml: file does `+
			`not exist`,
			"drivers/one/patches/args.yaml", "", ""),
		"two outputs with one name": broken(one+`:22: two outputs with one name: "service.yaml" is `+
			`already made for base/layer.yaml:4`,
			one, csidriver, csidriver+"  - {file: patches/service.yaml, side: guest}\n",
			"drivers/one/patches/service.yaml", "", "kind: Service"),
		"two containers with one name": broken(one+`:24: two containers with one name: `+
			`"csi-liveness-probe" is already in "node.yaml"`,
			one, "  - {use: liveness-probe}\n", "  - {use: liveness-probe}\n  - {use: liveness-probe}\n"),
		"port clash inside a pod": broken(one+":11: pod port clash: 8201 (provisioner-m exposed) is "+
			"taken by provisioner-m metrics at "+one+":11",
			one, "exposedFrom: 9201", "exposedFrom: 8201"),
		"host port clash between drivers": broken(two+":8: host port clash: 10301 (liveness) is "+
			"taken by liveness at "+one+":18",
			two, "10302", "10301"),
		"host port clash with a port written in a patch": broken(two+`:9: host port clash: 10301 `+
			`(container port "x") is taken by liveness at `+one+":18",
			"drivers/two/patches/node.yaml", "dnsPolicy", "containers: [{name: csi-driver, args: "+
				"['--port=10301'], ports: [{name: x, containerPort: 10301}]}], dnsPolicy"),
	}
}

// nameMistakes returns unknown placeholders, sidecars and options.
func nameMistakes() map[string]mistake {
	return map[string]mistake{
		"unknown placeholder of build time": broken(
			"base/pdb.yaml:4: unknown placeholder ${controler.name}",
			"base/pdb.yaml", "${controller.name}", "${controler.name}"),
		"placeholder of a part the driver lacks": broken("drivers/two/patches/node.yaml:1: unknown "+
			"placeholder ${controller.name}",
			"drivers/two/patches/node.yaml", "ClusterFirstWithHostNet", "\"${controller.name}\""),
		"unknown placeholder of run time": broken(
			"base/node.yaml:13: unknown placeholder ${DRIVERS_IMAGE}",
			"base/node.yaml", "${DRIVER_IMAGE}", "${DRIVERS_IMAGE}"),
		"placeholder without closing brace": broken(
			"base/node.yaml:13: unknown placeholder ${DRIVER_IMAGE",
			"base/node.yaml", "${DRIVER_IMAGE}", "${DRIVER_IMAGE"),
		"unknown sidecar": broken(two+`:12: unknown sidecar "livenes-probe"`,
			two, "use: liveness-probe", "use: livenes-probe"),
		"unknown sidecar for CSI-Addons": broken(two+`:14: unknown sidecar "addons"`,
			two, "- {use: liveness-probe}", "- {use: liveness-probe}\n  csiAddons:\n    sidecars: [{use: "+
				"addons}]"),
		"patch for CSI-Addons without target": broken(two+`:15: patch "patches/node.yaml" has no `+
			`target: there is no "nodes.yaml", only ["node.yaml"]`,
			two, "- {use: liveness-probe}", "- {use: liveness-probe}\n  csiAddons:\n    patches:\n"+
				"    - {target: nodes.yaml, merge: patches/node.yaml}"),
		"sidecar of the other part": broken(two+`:12: sidecar "provisioner" has no container for `+
			`the node part`,
			two, "use: liveness-probe", "use: provisioner",
			two, "liveness: 10302", "metricsFrom: 1, exposedFrom: 2",
			"base/node.yaml", "${node.liveness}", "1"),
		"unknown option of a sidecar": broken(one+`:11: sidecar "provisioner" has no option `+
			`"snapshot", only ["snapshots"]`,
			one, "[snapshots]", "[snapshot]", one, volumes, "", "drivers/one/patches/volume.yaml", "", ""),
		"sidecar with metrics and no ports": broken(one+`:11: sidecar "provisioner" serves metrics: `+
			`ports needs metricsFrom and exposedFrom`,
			one, "metricsFrom: 8201, ", ""),
		"kind with its own role made static": broken(one+`:21: "csidriver.yaml" is a CSIDriver: its `+
			`role is "csiDriver" and its side "guest", not "static" and "guest"`,
			one, ", role: csiDriver", ""),
	}
}

func TestMistakesAreReportedWithTheirPosition(t *testing.T) {
	t.Parallel()
	for _, mistakes := range []map[string]mistake{
		manifestMistakes(), outputMistakes(), nameMistakes(), fieldMistakes(), serviceMistakes(),
		conflictMistakes(), operatorMistakes(),
	} {
		for name, made := range mistakes {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkMistake(t, made)
			})
		}
	}
}

func checkMistake(t *testing.T, made mistake) {
	t.Helper()
	tree := validTree(t)
	for _, change := range made.edits {
		change.apply(t, tree)
	}
	_, err := generator.Generate(tree)
	assert.Assert(t, err != nil, "no error")
	assert.Check(t, is.DeepEqual(made.want, err.Error()))
	var located *position.Error
	assert.Check(t, errors.As(err, &located) && located.File != "" && located.Line != 0,
		"the error has no position: %#v", err)
}

func TestTreeWithoutMistakesIsAccepted(t *testing.T) {
	t.Parallel()
	_, err := generator.Generate(validTree(t))
	assert.NilError(t, err)
}

// validTree reads testdata/valid.txt: a small assets folder with two drivers and without mistakes.
// Each file follows a line with its name between dashes.
func validTree(t *testing.T) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile("testdata/valid.txt")
	assert.NilError(t, err)
	tree := fstest.MapFS{}
	for _, section := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		name, content, _ := strings.Cut(section, " --\n")
		tree[name] = &fstest.MapFile{Data: []byte(content + "\n")}
	}
	return tree
}

// edit changes one file of a tree: it replaces old, which occurs once, or the whole file if old is
// empty. If new is empty too, it removes the file.
type edit struct {
	file, old, new string
}

func (e edit) apply(t *testing.T, tree fstest.MapFS) {
	t.Helper()
	switch {
	case e.old == "" && e.new == "":
		delete(tree, e.file)
	case e.old == "":
		tree[e.file] = &fstest.MapFile{Data: []byte(e.new)}
	default:
		before := string(tree[e.file].Data)
		assert.Equal(t, strings.Count(before, e.old), 1, "%q in %s", e.old, e.file)
		tree[e.file] = &fstest.MapFile{Data: []byte(strings.Replace(before, e.old, e.new, 1))}
	}
}

// Without these errors an operator would deploy these mistakes, and the driver would not work.
const (
	csidriverLayer  = "drivers/one/base/csidriver.yaml"
	controllerPatch = "drivers/one/patches/controller.yaml"
	classEntry      = csidriver + "  - {file: base/class.yaml, side: guest, role: storageClass}\n"
	class           = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\n" +
		"metadata: {name: a}\nprovisioner: ${name}\n"
)

// fieldMistakes returns unknown fields and documents.
func fieldMistakes() map[string]mistake {
	return map[string]mistake{
		"misspelt field in an object": broken(csidriverLayer+
			`:4: "csidriver.yaml": unknown field "spec.attachRequird"`,
			csidriverLayer, "attachRequired", "attachRequird"),
		"misspelt field in a merge": broken(`drivers/one/patches/node.yaml:6: "node.yaml": unknown `+
			`field "spec.template.spec.containers[0].volumeMount"`,
			"drivers/one/patches/node.yaml", "", "spec:\n  template:\n    spec:\n      containers:\n"+
				"      - name: csi-driver\n        volumeMount: []\n"),
		"field at the wrong level": broken(`drivers/one/patches/node.yaml:3: "node.yaml": unknown `+
			`field "spec.template.dnsPolicy"`,
			"drivers/one/patches/node.yaml", "", "spec:\n  template:\n    dnsPolicy: Default\n    "+
				"spec:\n      dnsPolicy: Default\n"),
		"misspelt field in an operation": broken(`drivers/one/patches/args.yaml:2: "controller.yaml": `+
			`unknown field "spec.template.spec.containers[0].arg"`,
			"drivers/one/patches/args.yaml", "", "- {op: add, path: /args/-, value: --hosted}\n- {op: "+
				"add, path: /arg, value: [x]}\n"),
		"misspelt field in a sidecar": broken(`sidecars/provisioner/container.yaml:2: `+
			`"controller.yaml": unknown field "spec.template.spec.containers[1].arg"`,
			"sidecars/provisioner/container.yaml", "args:", "arg:"),
		"value of another type": broken(csidriverLayer+`:4: "csidriver.yaml": field `+
			`spec.attachRequired is a bool, not a string`,
			csidriverLayer, "false", `"no"`),
		"duplicate key": broken(
			controllerPatch+`:2: the key "spec" repeats line 1, as if two files were joined: remove one of `+
				`the two, with what is below it`,
			controllerPatch, "", "spec: {replicas: 1}\nspec: {replicas: 2}\n"),
		"misspelt kind": broken(csidriverLayer+`:2: "csidriver.yaml": unknown apiVersion and kind: `+
			`correct a misspelt kind, `+"or add a new one to pkg/generator/kinds.go",
			csidriverLayer, "kind: CSIDriver", "kind: CSIdriver"),
		"missing kind": broken(csidriverLayer+`:1: "csidriver.yaml" has no apiVersion or no kind`,
			csidriverLayer, "kind: CSIDriver\n", ""),
		"second document in a layer": broken(csidriverLayer+
			":3: a second YAML document: each file contains one",
			csidriverLayer, "apiVersion", "---\nkind: Secret\n---\napiVersion"),
		"second document in a patch": broken(controllerPatch+
			":2: a second YAML document: each file contains one",
			controllerPatch, "spec: {template", "spec: {replicas: 1}\n---\nspec: {template"),
		"second document in a manifest": broken(two+
			":5: a second YAML document: each file contains one",
			two, "node:\n", "---\nnode:\n"),
	}
}

// serviceMistakes returns drivers that are installed and do not work.
func serviceMistakes() map[string]mistake {
	return map[string]mistake{
		"StorageClass on the control plane side": broken(one+`:22: "class.yaml" is a StorageClass: `+
			`its role is "storageClass" and its side "guest", not "storageClass" and "controlPlane"`,
			one, csidriver, csidriver+"  - {file: base/class.yaml, side: controlPlane, role: "+
				"storageClass}\n", "drivers/one/base/class.yaml", "", class),
		"driver that kubelet does not know": broken(one+`:15: the node part has no sidecar `+
			`"node-driver-registrar": the kubelet would not register the driver`,
			one, "  - {use: node-driver-registrar}\n", ""),
		"volumes that nobody attaches": broken(csidriverLayer+`:1: "csidriver.yaml": attachRequired `+
			`is true, which is the default, but the controller part has no sidecar "attacher": no volume `+
			`would be attached`,
			csidriverLayer, "{attachRequired: false}", "{podInfoOnMount: true}"),
		"placeholder without braces": broken("base/pdb.yaml:4: $controller.name is not a placeholder: "+
			"write ${controller.name}; $$ is a plain dollar sign",
			"base/pdb.yaml", "${controller.name}-pdb", "$controller.name-pdb # ${name} $$name $(NAME)"),
	}
}

// conflictMistakes returns names and objects of another driver.
func conflictMistakes() map[string]mistake {
	const sameObject = " also defines: its name needs ${prefix} or ${clusterPrefix}"
	return map[string]mistake{
		"prefixes of another driver": broken(one+
			`:2: prefix "one" is also the prefix of driver "two"`+"\n"+one+
			`:3: clusterPrefix "example-one" is also the clusterPrefix of driver "two"`+"\n"+two+
			`:2: prefix "one" is also the prefix of driver "one"`+"\n"+two+
			`:3: clusterPrefix "example-one" is also the clusterPrefix of driver "one"`,
			two, "\ncompanionOf: one", ""),
		"CSI name of another driver": broken(one+`:1: name "one.csi.example.com" is also the name `+
			`of driver "two"`+"\n"+two+`:1: name "one.csi.example.com" is also the name of driver `+
			`"one"`,
			two, "\ncompanionOf: one", "", two, "name: two.csi", "name: one.csi",
			two, "prefix: one", "prefix: two", two, "example-one", "example-two"),
		"companion of a companion": broken(one+`:2: prefix "one" is also the prefix of driver "two"`+
			"\n"+one+`:3: clusterPrefix "example-one" is also the clusterPrefix of driver "two"`+
			"\n"+two+`:2: prefix "one" is also the prefix of driver "one"`+"\n"+two+
			`:3: clusterPrefix "example-one" is also the clusterPrefix of driver "one"`+"\n"+two+
			`:13: companionOf: "two" is not a driver, or is itself a companion`,
			two, "companionOf: one", "companionOf: two"),
		"class of another driver": broken(two+`:11: "class.yaml" is an object that `+one+":22"+
			sameObject,
			one, csidriver, classEntry, "drivers/one/base/class.yaml", "", class,
			two, "[node_sa.yaml]\n", "[node_sa.yaml]\n  add: [{file: class.yaml, side: guest, role: "+
				"storageClass}]\n", "drivers/two/class.yaml", "", class),
		"workload of another driver": broken(two+`:1: "node.yaml" is an object that `+one+":1"+
			sameObject,
			two, "name: two-node", "name: one-node"),
		"selector of another driver": broken(two+
			":7: the selector matches pods of the controller part at "+one+":7\n"+two+
			":7: the selector matches pods of the node part at "+one+":17",
			two, "{app: two}", "{app: one}"),
		"one selector for both parts": broken(one+":17: the selector matches pods of the controller "+
			"part at "+one+":7",
			one, "{app: one, component: node}", "{app: one, component: controller}"),
	}
}

// The valid tree has no operator. operatorPart adds one to driver one.
const (
	operatorLayer = "operator:\n  add:\n" +
		"  - {file: operator/role.yaml, side: controlPlane, grants: true, only: [standalone]}\n" +
		"  - {file: operator/deployment.yaml, side: controlPlane}\n"
	operatorRole = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n" +
		"metadata: {name: \"${operator.name}\"}\nrules: []\n"
	operatorDeployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n" +
		"spec: {template: {spec: {containers: [{name: a, image: \"${operator.image}\", env: []}]}}}\n"
	operatorPart = "operator:\n  name: one-operator\n  image: one\n  credentials: one\n" +
		"  images:\n    DRIVER_IMAGE: one\n    PROVISIONER_IMAGE: one\n" +
		"    KUBE_RBAC_PROXY_IMAGE: one\n    LIVENESS_PROBE_IMAGE: one\n" +
		"    NODE_DRIVER_REGISTRAR_IMAGE: one\n"
)

// withOperator returns the edits that give driver one an operator, changed by more edits.
func withOperator(more ...string) []string {
	return append([]string{
		"base/layer.yaml", "node:\n", operatorLayer + "node:\n",
		"base/operator/role.yaml", "", operatorRole,
		"base/operator/deployment.yaml", "", operatorDeployment,
		one, "node:\n  name", operatorPart + "node:\n  name",
	}, more...)
}

// operatorMistakes returns mistakes in the part that installs an operator.
func operatorMistakes() map[string]mistake {
	return map[string]mistake{
		"operator without image of an operand": broken(one+":19: no image for ${DRIVER_IMAGE}: add "+
			"it to operator.images",
			withOperator(one, "    DRIVER_IMAGE: one\n", "    X: one\n")...),
		"operator without credentials": broken(one+":15: operator.credentials is missing",
			withOperator(one, "  credentials: one\n", "")...),
		"operand without permissions of the operator": broken(one+`:15: no Role of the operator has `+
			`grants for operands in namespace ""`,
			withOperator("base/operator/role.yaml", "metadata: {", "metadata: {namespace: x, ")...),
		"ClusterServiceVersion without a Deployment": broken(`base/layer.yaml:10: "csv.yaml" needs `+
			`the operator's Deployment in this flavour`,
			withOperator("base/layer.yaml", "  - {file: operator/deployment.yaml, side: controlPlane}\n",
				"  - {file: operator/deployment.yaml, side: controlPlane, only: [hypershift]}\n"+
					"  - {file: operator/csv.yaml, side: controlPlane, only: [standalone]}\n",
				"base/operator/csv.yaml", "", "apiVersion: operators.coreos.com/v1alpha1\nkind: "+
					"ClusterServiceVersion\n"+"metadata: {name: a}\nspec: {version: 1.0.0}\n")...),
	}
}
