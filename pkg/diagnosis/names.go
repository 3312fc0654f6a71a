package diagnosis

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// InputsAnnotation is an annotation of a workload, not of its pods. It contains `kind/name=hash`
// for each rollout input.
const InputsAnnotation = "operator.openshift.io/rollout-inputs"

// ManagementCluster is where the controllers of the drivers of a guest cluster run, in messages.
const ManagementCluster = "management cluster"

// AnnotationPrefix starts the annotations with hashes.
const AnnotationPrefix = "operator.openshift.io/dep-"

// InputAnnotation returns the annotation with the hash of a rollout input, of a workload and of its
// pods. library-go uses the same key, so the hash replaces the hash of earlier releases.
func InputAnnotation(namespace, kind, name string) string {
	const longest = 63
	name = fmt.Sprintf("%s.%s.%s", namespace, name, strings.ToLower(kind))
	if key := AnnotationPrefix + name; len(key) <= longest {
		return key
	}
	return fmt.Sprintf("%s%x", AnnotationPrefix, sha256.Sum256([]byte(name)))[:longest]
}

// OperatorBinding returns the name of the ClusterRoleBinding of an operator.
func OperatorBinding(operator string) string { return operator + "-clusterrolebinding" }

// LostPermissions says that files which were applied in another namespace give the permissions of
// an operator to the one there, which commands let the operator continue, and which the other one.
func LostPermissions(operator, namespace, other string) (text, repair, leave string) {
	return fmt.Sprintf("operator in namespace %s has lost its permissions: the files that were "+
			"applied in namespace %s give them to the one there", namespace, other),
		fmt.Sprintf("To let it continue, run: kubectl delete deployment %[1]s -n %[2]s; kubectl patch "+
			`clusterrolebinding %[4]s --type=json --patch='[{"op": "replace", `+
			`"path": "/subjects/0/namespace", "value": "%[3]s"}]'`, operator, other, namespace,
			OperatorBinding(operator)),
		fmt.Sprintf(". To let the one in namespace %s take over, run: kubectl delete deployment %s -n %s",
			other, operator, namespace)
}

// ParseInputs returns the hashes in InputsAnnotation by input, such as secret/name.
func ParseInputs(list string) map[string]string {
	hashes := map[string]string{}
	for part := range strings.SplitSeq(list, ",") {
		if input, hash, ok := strings.Cut(part, "="); ok {
			hashes[input] = hash
		}
	}
	return hashes
}

// Sidecar is a container of the controller that works only while it holds its Lease.
type Sidecar string

// The sidecars.
const (
	Provisioner Sidecar = "provisioner"
	Attacher    Sidecar = "attacher"
	Resizer     Sidecar = "resizer"
	Snapshotter Sidecar = "snapshotter"
)

// Lease returns the name of the Lease of the sidecar of a driver.
func (s Sidecar) Lease(driver string) string {
	prefixes := map[Sidecar]string{
		Attacher: "external-attacher-leader-", Resizer: "external-resizer-",
		Snapshotter: "external-snapshotter-leader-",
	}
	return prefixes[s] + strings.ReplaceAll(driver, ".", "-")
}
