package generator_test

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
func withOperator(more ...edit) []edit {
	return append([]edit{
		{"base/layer.yaml", "node:\n", operatorLayer + "node:\n"},
		{"base/operator/role.yaml", "", operatorRole},
		{"base/operator/deployment.yaml", "", operatorDeployment},
		{one, "node:\n  name", operatorPart + "node:\n  name"},
	}, more...)
}

// operatorMistakes returns mistakes in the part that installs an operator.
func operatorMistakes() map[string]mistake {
	return map[string]mistake{
		"operator without image of an operand": {
			edits: withOperator(edit{one, "    DRIVER_IMAGE: one\n", "    X: one\n"}),
			want:  one + ":19: no image for ${DRIVER_IMAGE}: add it to operator.images",
		},
		"operator without credentials": {
			edits: withOperator(edit{one, "  credentials: one\n", ""}),
			want:  one + ":15: operator.credentials is missing",
		},
		"operand without permissions of the operator": {
			edits: withOperator(edit{
				"base/operator/role.yaml", "metadata: {", "metadata: {namespace: x, ",
			}),
			want: one + `:15: no Role of the operator has grants for operands in namespace ""`,
		},
		"ClusterServiceVersion without a Deployment": {
			edits: withOperator(
				edit{
					"base/layer.yaml", "  - {file: operator/deployment.yaml, side: controlPlane}\n",
					"  - {file: operator/deployment.yaml, side: controlPlane, only: [hypershift]}\n" +
						"  - {file: operator/csv.yaml, side: controlPlane, only: [standalone]}\n",
				},
				edit{
					"base/operator/csv.yaml", "",
					"apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n" +
						"metadata: {name: a}\nspec: {version: 1.0.0}\n",
				},
			),
			want: `base/layer.yaml:10: "csv.yaml" needs the operator's Deployment in this flavour`,
		},
	}
}
