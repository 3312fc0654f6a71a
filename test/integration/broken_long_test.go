//go:build integration && long

package integration

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/openstack-csi/csi-operator/pkg/kubectl"
	"github.com/openstack-csi/csi-operator/test/broken"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// TestWhyExplainsWhatControllersWrite creates what users create in generated situations. The real
// controllers, scheduler and admission write the rest: no event or status comes from the test.
func TestWhyExplainsWhatControllersWrite(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	nodes, err := e.guest.kube.CoreV1().Nodes().List(e.ctx(), metav1.ListOptions{
		LabelSelector: "node-role.kubernetes.io/worker",
	})
	e.must(err)
	assert.Assert(t, len(nodes.Items) >= 2, "%d nodes", len(nodes.Items))
	world := broken.NewWorld(time.Now())
	world.Distinct = true
	world.Nodes = map[string]string{"node-a": nodes.Items[0].Name, "node-b": nodes.Items[1].Name}
	all, err := broken.All(world)
	e.must(err)
	all = slices.DeleteFunc(all, func(s broken.Situation) bool { return !isReal(s) })
	assert.Check(t, len(all) >= 35, "%d situations", len(all))
	for _, s := range all {
		e.createFor(s)
	}
	e.eventually(3*time.Minute, func() error {
		wrong := ""
		all = slices.DeleteFunc(all, func(s broken.Situation) bool {
			text := e.judge(s)
			wrong += text
			return text == ""
		})
		if wrong == "" {
			return nil
		}
		return fmt.Errorf("%d situations:\n%s", len(all), wrong)
	})
}

// isReal returns whether controllers of the cluster write all that a situation is about. The others
// need a change of nodes, of the driver or of admission, or a pod before the deletion.
func isReal(s broken.Situation) bool {
	parts := strings.Split(s.Name, "/")
	// The templates of workloads select and request nothing.
	ofPods := []string{"cpu", "selector of the pod", "gate of the pod", "missing"}
	return parts[2] == "cinder" && (slices.Contains(ofPods, parts[1]) && parts[3] == "pod" ||
		slices.Contains([]string{
			"quota of storage", "quota of claims", "quota of the class", "limit of a claim",
			"policy of pods", "typo", "empty", "class for a zone without nodes",
			"volume in a zone without nodes", "access by one pod only", "claim that a pod uses",
		}, parts[1]))
}

// createFor creates what users create in a situation.
func (e *env) createFor(s broken.Situation) {
	e.t.Helper()
	writer, err := fixtures.NewWriter(e.guest.config)
	e.must(err)
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
	}}
	namespace.SetName(s.Names["ns"])
	own := append([]unstructured.Unstructured{*namespace}, s.Objects...)
	for i := range own {
		o := own[i].DeepCopy()
		byOthers := []string{"Node", "CSINode", "Event", "ReplicaSet", "ClusterCSIDriver"}
		if slices.Contains(byOthers, o.GetKind()) || len(o.GetOwnerReferences()) > 0 {
			continue
		}
		isDeleted := o.GetDeletionTimestamp() != nil
		labels := o.GetLabels()
		o.Object["metadata"] = map[string]any{"name": o.GetName(), "namespace": o.GetNamespace()}
		o.SetLabels(labels)
		delete(o.Object, "status")
		unstructured.RemoveNestedField(o.Object, "spec", "claimRef", "uid")
		// A pod needs a ServiceAccount.
		e.eventually(soon, func() error { return writer.Write(e.ctx(), o) })
		e.afterwards(func(ctx context.Context) error { return writer.Delete(ctx, o) })
		if isDeleted {
			e.must(writer.Delete(e.ctx(), o))
		}
	}
}

// judge returns what is wrong with the first line of a situation.
func (e *env) judge(s broken.Situation) string {
	var out bytes.Buffer
	code := kubectl.Main(e.ctx(), append(slices.Clone(s.Args[:4]), "--kubeconfig="+
		e.guest.dir.AdminKubeconfig()), kubectl.Streams{Out: &out, Err: &out})
	first, _, _ := strings.Cut(out.String(), "\n  ")
	first = strings.Join(strings.Fields(first), " ")
	if lacks := s.Answer.Lacks(first, out.String()); len(lacks) > 0 || code != 1 {
		return fmt.Sprintf("%s: lacks %q, exit code %d:\n%s\n", s.Name, lacks, code, first)
	}
	return ""
}
