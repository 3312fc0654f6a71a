//go:build integration && long

package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// tool is the field manager of a tool of GitOps.
const tool = "gitops"

// TestFilesAreAppliedByAToolOfGitOps applies the files of a release as docs/gitops.md says: on the
// server, in a random order, each object again until the API server knows its kind. While both
// operators run, nobody else writes a field of these objects except for their status: to apply them
// again changes nothing. An object that was deleted comes back, and the operators report nothing.
// Then the plugin removes everything, and leaves all other objects as they were.
func TestFilesAreAppliedByAToolOfGitOps(t *testing.T) {
	t.Parallel()
	k := startPlainKubernetes(t)
	k.run(ofOthers)
	before := k.contents()
	k.eventually(func() error { // controllers add objects to each namespace
		earlier := before
		if before = k.contents(); before["ServiceAccount openstack-csi-2/default"] == nil ||
			before["ConfigMap openstack-csi-2/kube-root-ca.crt"] == nil || len(before) != len(earlier) {
			return errors.New("the namespaces are not complete")
		}
		return nil
	})
	objects := k.inGit()
	seed := rand.Uint64()
	t.Logf("the seed of the order is %d", seed)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(objects), func(i, j int) {
		objects[i], objects[j] = objects[j], objects[i]
	})
	waiting := objects
	k.eventually(func() (err error) {
		waiting = slices.DeleteFunc(slices.Clone(waiting), func(o *unstructured.Unstructured) bool {
			_, failed := k.apply(o)
			if failed != nil {
				err = failed
			}
			return failed == nil
		})
		return err
	})
	k.run(k.commands("Install the Manila operator")[1])
	var stop []func()
	for _, driver := range []string{"manila", "cinder"} {
		stop = append(stop, k.startOperator(driver))
		k.awaitAvailable()
	}
	k.mustApplyWithoutChange(objects)

	for _, pruned := range []string{
		"clusterrole openstack-manila-edit",
		"networkpolicy manila-csi-driver-egress-dns",
		"service manila-csi-driver-operator-metrics", "maniladriver " + manilaName,
	} {
		k.run("kubectl delete --namespace=openstack-csi " + pruned)
	}
	for _, o := range objects {
		_, err := k.apply(o)
		k.must(err)
	}
	k.run("kubectl wait maniladriver,cinderdriver --all --for=condition=Ready --timeout=2m")
	k.mustApplyWithoutChange(objects)
	k.mustNotWarn()

	for _, end := range stop {
		end()
	}
	k.run("kubectl delete secret openstack-credentials --namespace=openstack-csi")
	k.run("kubectl openstack-csi uninstall")
	assert.Check(t, is.DeepEqual(before, k.contents()))
}

// ofOthers creates objects whose names start as those of an installation do.
const ofOthers = `kubectl create namespace openstack-csi-2
kubectl create configmap manila-csi-driver-operator-config --namespace=openstack-csi-2
kubectl create clusterrole openstack-manila-csi --verb=get --resource=pods
kubectl label clusterrole openstack-manila-csi app.kubernetes.io/instance=openstack-manila
kubectl apply -f - <<EOF
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: csi-manila-mine}
provisioner: nfs.manila.csi.openstack.org
EOF`

const manilaName = "nfs.manila.csi.openstack.org"

// inGit returns the objects of the kustomization of docs/gitops.md, with the files of both drivers.
func (k *plainKubernetes) inGit() (all []*unstructured.Unstructured) {
	k.t.Helper()
	commands, err := guide.Commands(filepath.Join(repository, "docs/gitops.md"), "What is in git")
	k.must(err)
	text := strings.Replace(commands[0], "- manila.yaml", "- manila.yaml\n- cinder.yaml", 1)
	k.must(paths.WriteFile(filepath.Join(k.release, "kustomization.yaml"), []byte(text)))
	output, err := guide.Output(k.ctx(), `kubectl kustomize "$RELEASE"`, k.variables()...)
	k.must(err)
	k.must(os.Remove(filepath.Join(k.release, "kustomization.yaml")))
	for document := range strings.SplitSeq(output, "\n---\n") {
		o := &unstructured.Unstructured{}
		k.must(yaml.Unmarshal([]byte(document), &o.Object))
		all = append(all, o)
	}
	assert.Assert(k.t, len(all) > 30, "the files contain %d objects", len(all))
	return all
}

// resource returns the client for an object, which may be nil.
func (k *plainKubernetes) resource(o *unstructured.Unstructured) dynamic.ResourceInterface {
	guessed, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if guessed.Resource == "networkpolicys" {
		guessed.Resource = "networkpolicies"
	}
	return k.cluster.dynamic.Resource(guessed).Namespace(o.GetNamespace())
}

// apply applies an object on the server, and fails if another manager has one of its fields.
func (k *plainKubernetes) apply(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return k.resource(o).Apply(k.ctx(), o.GetName(), o.DeepCopy(),
		metav1.ApplyOptions{FieldManager: tool})
}

// mustApplyWithoutChange applies all objects, and fails the test if that changes one of them, or if
// another manager has fields that are not in the status.
func (k *plainKubernetes) mustApplyWithoutChange(objects []*unstructured.Unstructured) {
	k.t.Helper()
	for _, o := range objects {
		k.eventually(func() error {
			was, err := k.resource(o).Get(k.ctx(), o.GetName(), metav1.GetOptions{})
			k.must(err)
			now, err := k.apply(o)
			k.must(err)
			if was.GetResourceVersion() == now.GetResourceVersion() {
				return nil
			}
			for _, one := range []*unstructured.Unstructured{was, now} {
				one.SetResourceVersion("")
				unstructured.RemoveNestedField(one.Object, "status")
				one.SetManagedFields(slices.DeleteFunc(one.GetManagedFields(),
					func(m metav1.ManagedFieldsEntry) bool { return m.Subresource == "status" }))
			}
			assert.Assert(k.t, is.DeepEqual(was, now))
			return fmt.Errorf("the status of %s %s changes", o.GetKind(), o.GetName())
		})
		now, err := k.resource(o).Get(k.ctx(), o.GetName(), metav1.GetOptions{})
		k.must(err)
		for _, m := range now.GetManagedFields() {
			isOfKubernetes := m.Manager == "kube-controller-manager" || m.Manager == "kube-apiserver"
			assert.Check(k.t, m.Manager == tool || m.Subresource == "status" || isOfKubernetes,
				"%s writes %s %s: %s", m.Manager, o.GetKind(), o.GetName(), m.FieldsV1)
		}
	}
}

// contents returns all objects of the cluster with their content, except for what changes without a
// cause, and what only reports.
func (k *plainKubernetes) contents() map[string]any {
	k.t.Helper()
	found := map[string]any{}
	for _, o := range k.allObjects() {
		reports := []string{"Event", "Lease", "ComponentStatus", "Node", "APIService"}
		if slices.Contains(reports, o.GetKind()) {
			continue
		}
		unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
		if o.Object["aggregationRule"] != nil { // its rules grow, and shrink again
			o.SetResourceVersion("")
		}
		found[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o.Object
	}
	return found
}
