package generator_test

import (
	"errors"
	"strings"
	"testing"

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
	edits []edit
	want  string
}

// manifestMistakes returns mistakes in a driver.yaml, a sidecar.yaml or a layer.yaml.
func manifestMistakes() map[string]mistake {
	return map[string]mistake{
		"unknown key in driver.yaml": {
			edits: []edit{{one, "prefix: one\n", "prefix: one\nprefx: one\n"}},
			want:  one + `:3: "driver.yaml": unknown field "prefx"`,
		},
		"unknown key in a sidecar": {
			edits: []edit{{"sidecars/provisioner/sidecar.yaml", "with:", "wiht:"}},
			want:  `sidecars/provisioner/sidecar.yaml:6: "sidecar.yaml": unknown field "wiht"`,
		},
		"unknown key in a layer": {
			edits: []edit{{"base/layer.yaml", "node:", "nodes:"}},
			want:  `base/layer.yaml:6: "layer.yaml": unknown field "nodes"`,
		},
		"manifest is not YAML": {
			edits: []edit{{two, "  name: two-node\n", "  name: [\n"}},
			want:  two + ":6: did not find expected ',' or ']'",
		},
		"condition for a flavour that does not exist": {
			edits: []edit{{"base/layer.yaml", "only: [standalone]", "only: [Standalone]"}},
			want:  `base/layer.yaml:5: only: "Standalone" is not one of ["standalone" "hypershift"]`,
		},
		"flavour that does not exist": {
			edits: []edit{{two, "[standalone]", "[standalon]"}},
			want:  two + `:4: flavours: "standalon" is not one of ["standalone" "hypershift"]`,
		},
		"side that does not exist": {
			edits: []edit{{one, "side: guest, role: csiDriver", "side: gest, role: csiDriver"}},
			want:  one + `:21: "csidriver.yaml" has side "gest", not one of ["controlPlane" "guest"]`,
		},
		"part that does not exist": {
			edits: []edit{{
				"sidecars/provisioner/sidecar.yaml", "provisioner_binding.yaml, side: guest",
				"provisioner_binding.yaml, part: nod, side: guest",
			}},
			want: `sidecars/provisioner/sidecar.yaml:5: part: "nod" is not one of ["controller" "node"]`,
		},
		"required keys are missing": {
			edits: []edit{
				{two, "name: two.csi.example.com\n", ""},
				{two, "flavours: [standalone]\n", ""},
				{two, "  selector: {app: two}\n", ""},
				{two, "  name: two-node\n", ""},
				{two, "  workload: patches/node.yaml\n", ""},
				{"drivers/two/patches/node.yaml", "", ""},
			},
			want: two + ":1: flavours is missing\n" + two + ":1: name is missing\n" +
				two + ":3: node.name is missing\n" + two + ":3: node.selector is missing\n" +
				two + ":3: node.workload is missing",
		},
		"patch of two kinds": {
			edits: []edit{{
				one, "merge: patches/volume.yaml",
				"merge: patches/volume.yaml, json6902: patches/args.yaml",
			}},
			want: one + ":13: a patch has either merge or json6902",
		},
		"sidecar for a flavour that does not exist": {
			edits: []edit{{
				"sidecars/kube-rbac-proxy/sidecar.yaml", "each:", "only: [standalon]\neach:",
			}},
			want: `sidecars/kube-rbac-proxy/sidecar.yaml:3: only: "standalon" is not one of ` +
				`["standalone" "hypershift"]`,
		},
	}
}

// patchMistakes returns patches without target or effect.
func patchMistakes() map[string]mistake {
	return map[string]mistake{
		"patch without target": {
			edits: []edit{{one, volumes, strings.Replace(volumes, "controller.yaml", "controler.yaml", 1)}},
			want: one + `:13: patch "patches/volume.yaml" has no target: there is no "controler.yaml", ` +
				`only ` +
				all + "\n" +
				one + `:13: patch "patches/volume.yaml" has no target: there is no "controler.yaml", only ` +
				withoutBudget,
		},
		"patch for a container that does not exist": {
			edits: []edit{{one, "container: csi-driver", "container: csi-drive"}},
			want:  one + `:14: "controller.yaml" has no container "csi-drive"`,
		},
		"driver leaves out a file that the base does not have": {
			edits: []edit{{two, "[node_sa.yaml]", "[node_sa.yaml, sa.yaml]"}},
			want:  two + `:10: the base has no "sa.yaml"`,
		},
		"merge that changes nothing": {
			edits: []edit{{"drivers/one/patches/volume.yaml", "", "metadata: {name: one-controller}"}},
			want:  one + `:13: patch "patches/volume.yaml" changes nothing in "controller.yaml"`,
		},
		"operations that change nothing": {
			edits: []edit{{
				"drivers/one/patches/args.yaml", "",
				"- {op: test, path: /name, value: csi-driver}",
			}},
			want: one + `:14: patch "patches/args.yaml" changes nothing in "controller.yaml"`,
		},
		"operation without target": {
			edits: []edit{{"drivers/one/patches/args.yaml", "", "- {op: remove, path: /nowhere}"}},
			want: "drivers/one/patches/args.yaml:1: patching \"controller.yaml\": applying patch: error " +
				"in remove for path: " +
				"'/spec/template/spec/containers/0/nowhere': unable to remove nonexistent key: nowhere: " +
				"missing value",
		},
		"layer is not YAML": {
			edits: []edit{{"base/pdb.yaml", "metadata:\n", "metadata: [\n"}},
			want:  "base/pdb.yaml:3: did not find expected ',' or ']'",
		},
	}
}

// outputMistakes returns files and outputs that are missing or superfluous.
func outputMistakes() map[string]mistake {
	return map[string]mistake{
		"unused file": {
			edits: []edit{
				{"base/stray.yaml", "", "a: b"},
				{"drivers/one/patches/stray.yaml", "", "a: b"},
				{"sidecars/provisioner/stray.yaml", "", "a: b"},
				{"drivers/two/README.md", "", "is allowed"},
				{"drivers/two/generated/standalone/stray.yaml", "", "is output"},
				{"csi-addons/crd/crd.yaml", "", "is no layer"},
			},
			want: "base/stray.yaml:1: no manifest uses this file\n" +
				"drivers/one/patches/stray.yaml:1: no manifest uses this file\n" +
				"sidecars/provisioner/stray.yaml:1: no manifest uses this file",
		},
		"file which is not there": {
			edits: []edit{{"drivers/one/patches/args.yaml", "", ""}},
			want:  one + `:14: open drivers/one/patches/args.yaml: file does not exist`,
		},
		"two outputs with one name": {
			edits: []edit{
				{one, csidriver, csidriver + "  - {file: patches/service.yaml, side: guest}\n"},
				{"drivers/one/patches/service.yaml", "", "kind: Service"},
			},
			want: one + `:22: two outputs with one name: "service.yaml" is already made for ` +
				`base/layer.yaml:4`,
		},
		"two containers with one name": {
			edits: []edit{{
				one, "  - {use: liveness-probe}\n",
				"  - {use: liveness-probe}\n  - {use: liveness-probe}\n",
			}},
			want: one + `:24: two containers with one name: "csi-liveness-probe" is already in "node.yaml"`,
		},
	}
}

// portMistakes returns ports that clash or that no container serves.
func portMistakes() map[string]mistake {
	return map[string]mistake{
		"port clash inside a pod": {
			edits: []edit{{one, "exposedFrom: 9201", "exposedFrom: 8201"}},
			want: one + ":11: pod port clash: 8201 (provisioner-m exposed) is taken by " +
				"provisioner-m metrics at " +
				one + ":11",
		},
		"host port clash between drivers": {
			edits: []edit{{two, "10302", "10301"}},
			want:  two + ":8: host port clash: 10301 (liveness) is taken by liveness at " + one + ":18",
		},
		"host port clash with a port written in a patch": {
			edits: []edit{{
				"drivers/two/patches/node.yaml", "dnsPolicy",
				"containers: [{name: csi-driver, args: ['--port=10301'], ports: [{name: x, containerPort: " +
					"10301}]}], dnsPolicy",
			}},
			want: two + `:9: host port clash: 10301 (container port "x") is taken by liveness at ` +
				one + ":18",
		},
	}
}

// nameMistakes returns unknown placeholders, sidecars and options.
func nameMistakes() map[string]mistake {
	return map[string]mistake{
		"unknown placeholder of build time": {
			edits: []edit{{"base/pdb.yaml", "${controller.name}", "${controler.name}"}},
			want:  "base/pdb.yaml:4: unknown placeholder ${controler.name}",
		},
		"placeholder of a part the driver lacks": {
			edits: []edit{{
				"drivers/two/patches/node.yaml", "ClusterFirstWithHostNet",
				"\"${controller.name}\"",
			}},
			want: "drivers/two/patches/node.yaml:1: unknown placeholder ${controller.name}",
		},
		"unknown placeholder of run time": {
			edits: []edit{{"base/node.yaml", "${DRIVER_IMAGE}", "${DRIVERS_IMAGE}"}},
			want:  "base/node.yaml:13: unknown placeholder ${DRIVERS_IMAGE}",
		},
		"placeholder without closing brace": {
			edits: []edit{{"base/node.yaml", "${DRIVER_IMAGE}", "${DRIVER_IMAGE"}},
			want:  "base/node.yaml:13: unknown placeholder ${DRIVER_IMAGE",
		},
		"unknown sidecar": {
			edits: []edit{{two, "use: liveness-probe", "use: livenes-probe"}},
			want:  two + `:12: unknown sidecar "livenes-probe"`,
		},
		"unknown sidecar for CSI-Addons": {
			edits: []edit{{
				two, "- {use: liveness-probe}",
				"- {use: liveness-probe}\n  csiAddons:\n    sidecars: [{use: addons}]",
			}},
			want: two + `:14: unknown sidecar "addons"`,
		},
		"patch for CSI-Addons without target": {
			edits: []edit{{
				two, "- {use: liveness-probe}",
				"- {use: liveness-probe}\n  csiAddons:\n    patches:\n" +
					"    - {target: nodes.yaml, merge: patches/node.yaml}",
			}},
			want: two + `:15: patch "patches/node.yaml" has no target: there is no "nodes.yaml", ` +
				`only ["node.yaml"]`,
		},
		"sidecar of the other part": {
			edits: []edit{
				{two, "use: liveness-probe", "use: provisioner"},
				{two, "liveness: 10302", "metricsFrom: 1, exposedFrom: 2"},
				{"base/node.yaml", "${node.liveness}", "1"},
			},
			want: two + `:12: sidecar "provisioner" has no container for the node part`,
		},
		"unknown option of a sidecar": {
			edits: []edit{
				{one, "[snapshots]", "[snapshot]"},
				{one, volumes, ""},
				{"drivers/one/patches/volume.yaml", "", ""},
			},
			want: one + `:11: sidecar "provisioner" has no option "snapshot", only ["snapshots"]`,
		},
		"sidecar with metrics and no ports": {
			edits: []edit{{one, "metricsFrom: 8201, ", ""}},
			want: one + `:11: sidecar "provisioner" serves metrics: ports needs metricsFrom and ` +
				`exposedFrom`,
		},
		"kind with its own role made static": {
			edits: []edit{{one, ", role: csiDriver", ""}},
			want: one + `:21: "csidriver.yaml" is a CSIDriver: its role is "csiDriver" and its ` +
				`side "guest", not "static" and "guest"`,
		},
	}
}

func TestMistakesAreReportedWithTheirPosition(t *testing.T) {
	t.Parallel()
	groups := []map[string]mistake{
		manifestMistakes(), patchMistakes(), outputMistakes(), portMistakes(), nameMistakes(),
		fieldMistakes(), serviceMistakes(), conflictMistakes(), operatorMistakes(),
	}
	for _, mistakes := range groups {
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
	if !errors.As(err, &located) || located.File == "" || located.Line == 0 {
		t.Errorf("the error has no position: %#v", err)
	}
}

func TestTreeWithoutMistakesIsAccepted(t *testing.T) {
	t.Parallel()
	if _, err := generator.Generate(validTree(t)); err != nil {
		t.Fatal(err)
	}
}
