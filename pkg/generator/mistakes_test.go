package generator_test

// An operator would deploy the mistakes in this file without an error, and the driver would not
// work.

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
		"misspelt field in an object": {
			edits: []edit{{csidriverLayer, "attachRequired", "attachRequird"}},
			want:  csidriverLayer + `:4: "csidriver.yaml": unknown field "spec.attachRequird"`,
		},
		"misspelt field in a merge": {
			edits: []edit{{
				"drivers/one/patches/node.yaml", "",
				"spec:\n  template:\n    spec:\n      containers:\n" +
					"      - name: csi-driver\n        volumeMount: []\n",
			}},
			want: `drivers/one/patches/node.yaml:6: "node.yaml": unknown field ` +
				`"spec.template.spec.containers[0].volumeMount"`,
		},
		"field at the wrong level": {
			edits: []edit{{
				"drivers/one/patches/node.yaml", "",
				"spec:\n  template:\n    dnsPolicy: Default\n    spec:\n      dnsPolicy: Default\n",
			}},
			want: `drivers/one/patches/node.yaml:3: "node.yaml": unknown field "spec.template.dnsPolicy"`,
		},
		"misspelt field in an operation": {
			edits: []edit{{
				"drivers/one/patches/args.yaml", "",
				"- {op: add, path: /args/-, value: --hosted}\n- {op: add, path: /arg, value: [x]}\n",
			}},
			want: `drivers/one/patches/args.yaml:2: "controller.yaml": unknown field ` +
				`"spec.template.spec.containers[0].arg"`,
		},
		"misspelt field in a sidecar": {
			edits: []edit{{"sidecars/provisioner/container.yaml", "args:", "arg:"}},
			want: `sidecars/provisioner/container.yaml:2: "controller.yaml": unknown field ` +
				`"spec.template.spec.containers[1].arg"`,
		},
		"value of another type": {
			edits: []edit{{csidriverLayer, "false", `"no"`}},
			want: csidriverLayer +
				`:4: "csidriver.yaml": field spec.attachRequired is a bool, not a string`,
		},
		"duplicate key": {
			edits: []edit{{controllerPatch, "", "spec: {replicas: 1}\nspec: {replicas: 2}\n"}},
			want:  controllerPatch + `:2: mapping key "spec" already defined at line 1`,
		},
		"misspelt kind": {
			edits: []edit{{csidriverLayer, "kind: CSIDriver", "kind: CSIdriver"}},
			want: csidriverLayer +
				`:2: "csidriver.yaml": unknown apiVersion and kind: correct a misspelt kind, ` +
				"or add a new one to pkg/generator/kinds.go",
		},
		"missing kind": {
			edits: []edit{{csidriverLayer, "kind: CSIDriver\n", ""}},
			want:  csidriverLayer + `:1: "csidriver.yaml" has no apiVersion or no kind`,
		},
		"second document in a layer": {
			edits: []edit{{csidriverLayer, "apiVersion", "---\nkind: Secret\n---\napiVersion"}},
			want:  csidriverLayer + ":3: a second YAML document: each file contains one",
		},
		"second document in a patch": {
			edits: []edit{{controllerPatch, "spec: {template", "spec: {replicas: 1}\n---\nspec: {template"}},
			want:  controllerPatch + ":2: a second YAML document: each file contains one",
		},
		"second document in a manifest": {
			edits: []edit{{two, "node:\n", "---\nnode:\n"}},
			want:  two + ":5: a second YAML document: each file contains one",
		},
	}
}

// serviceMistakes returns drivers that are installed and do not work.
func serviceMistakes() map[string]mistake {
	return map[string]mistake{
		"StorageClass on the control plane side": {
			edits: []edit{
				{
					one, csidriver,
					csidriver + "  - {file: base/class.yaml, side: controlPlane, role: storageClass}\n",
				},
				{"drivers/one/base/class.yaml", "", class},
			},
			want: one + `:22: "class.yaml" is a StorageClass: its role is "storageClass" and its ` +
				`side "guest", not "storageClass" and "controlPlane"`,
		},
		"driver that kubelet does not know": {
			edits: []edit{{one, "  - {use: node-driver-registrar}\n", ""}},
			want: one + `:15: the node part has no sidecar "node-driver-registrar": the kubelet ` +
				`would not register the driver`,
		},
		"volumes that nobody attaches": {
			edits: []edit{{csidriverLayer, "{attachRequired: false}", "{podInfoOnMount: true}"}},
			want: csidriverLayer + `:1: "csidriver.yaml": attachRequired is true, which is the default, ` +
				`but the controller part has no sidecar "attacher": no volume would be attached`,
		},
		"placeholder without braces": {
			edits: []edit{{
				"base/pdb.yaml", "${controller.name}-pdb",
				"$controller.name-pdb # ${name} $$name $(NAME)",
			}},
			want: "base/pdb.yaml:4: $controller.name is not a placeholder: write ${controller.name}; $$ " +
				"is a plain dollar sign",
		},
	}
}

// conflictMistakes returns names and objects of another driver.
func conflictMistakes() map[string]mistake {
	const sameObject = " also defines: its name needs ${prefix} or ${clusterPrefix}"
	return map[string]mistake{
		"prefixes of another driver": {
			edits: []edit{{two, "\ncompanionOf: one", ""}},
			want: one + `:2: prefix "one" is also the prefix of driver "two"` + "\n" +
				one + `:3: clusterPrefix "example-one" is also the clusterPrefix of driver "two"` + "\n" +
				two + `:2: prefix "one" is also the prefix of driver "one"` + "\n" +
				two + `:3: clusterPrefix "example-one" is also the clusterPrefix of driver "one"`,
		},
		"CSI name of another driver": {
			edits: []edit{
				{two, "\ncompanionOf: one", ""},
				{two, "name: two.csi", "name: one.csi"},
				{two, "prefix: one", "prefix: two"},
				{two, "example-one", "example-two"},
			},
			want: one + `:1: name "one.csi.example.com" is also the name of driver "two"` + "\n" +
				two + `:1: name "one.csi.example.com" is also the name of driver "one"`,
		},
		"companion of a companion": {
			edits: []edit{{two, "companionOf: one", "companionOf: two"}},
			want: one + `:2: prefix "one" is also the prefix of driver "two"` + "\n" +
				one + `:3: clusterPrefix "example-one" is also the clusterPrefix of driver "two"` + "\n" +
				two + `:2: prefix "one" is also the prefix of driver "one"` + "\n" +
				two + `:3: clusterPrefix "example-one" is also the clusterPrefix of driver "one"` + "\n" +
				two + `:13: companionOf: "two" is not a driver, or is itself a companion`,
		},
		"class of another driver": {
			edits: []edit{
				{one, csidriver, classEntry},
				{"drivers/one/base/class.yaml", "", class},
				{
					two, "[node_sa.yaml]\n",
					"[node_sa.yaml]\n  add: [{file: class.yaml, side: guest, role: storageClass}]\n",
				},
				{"drivers/two/class.yaml", "", class},
			},
			want: two + `:11: "class.yaml" is an object that ` + one + ":22" + sameObject,
		},
		"workload of another driver": {
			edits: []edit{{two, "name: two-node", "name: one-node"}},
			want:  two + `:1: "node.yaml" is an object that ` + one + ":1" + sameObject,
		},
		"selector of another driver": {
			edits: []edit{{two, "{app: two}", "{app: one}"}},
			want: two + ":7: the selector matches pods of the controller part at " + one + ":7\n" +
				two + ":7: the selector matches pods of the node part at " + one + ":17",
		},
		"one selector for both parts": {
			edits: []edit{{one, "{app: one, component: node}", "{app: one, component: controller}"}},
			want:  one + ":17: the selector matches pods of the controller part at " + one + ":7",
		},
	}
}
