//go:build integration && long

package csiaddons

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// crdFolder contains the CRDs of this repository.
const crdFolder = "../../assets/csi-addons/crd/generated/" + v1alpha1.Group + "_"

// addedStatus are the fields that the CRDs of the CSI-Addons for Ceph do not contain.
func addedStatus() map[string][]string {
	return map[string][]string{
		"reclaimspacejobs":     {"reason", "step", "node"},
		"reclaimspacecronjobs": {"reason", "message", "nextScheduleTime"},
		"networkfences":        {"reason"},
	}
}

func TestCRDs(t *testing.T) {
	t.Parallel()
	w := borrow(t)
	w.part("CRDs of others and ours", (*world).checkCRDs)
	w.part("a CRD without our version", (*world).checkOtherVersion)
}

// part runs a part of a test, which does not depend on the other parts.
func (w *world) part(name string, run func(*world)) {
	w.Helper()
	w.Run(name, func(t *testing.T) {
		part := *w
		part.T = t
		run(&part)
	})
}

// checkCRDs checks what the API server accepts with the CRDs of the CSI-Addons for Ceph and with
// ours, and that the installation does not change the CRDs of other programs.
func (w *world) checkCRDs() {
	foreign := w.ownCRDs()
	for _, crd := range foreign {
		removeOurFields(crd)
		w.createCRD(crd)
	}
	w.installCRDs(len(foreign), "another program has installed it")
	for name, before := range foreign {
		after := w.crd(name)
		assert.Check(w, before.Generation == after.Generation && len(after.Annotations) == 0,
			"the installation has changed %s of another program", name)
	}
	w.checkObjects(false)
	assert.Check(w, is.Equal(w.storedReason(), ""), "a reason in a CRD without the field")
	for _, crd := range foreign {
		w.must(w.client.Delete(w.Context(), crd))
		w.awaitGone(crd)
	}

	w.installCRDs(0, "")
	w.checkObjects(true)
	assert.Check(w, is.Equal(w.storedReason(), "Tested"), "a reason in our CRD")

	w.setRevision("networkfences", "99")
	w.setRevision("reclaimspacejobs", "2") // which had no limits
	w.setRevision("csiaddonsnodes", "1")   // the same
	tenant, node := w.createLarge("ReclaimSpaceJob", `{target: {persistentVolumeClaim: "${huge}"}}`),
		w.createLarge("CSIAddonsNode", `{driver: {name: a, nodeID: b, endpoint: "${huge}"}}`)
	w.installCRDs(1, "a later release has installed it (revision 99, not 2)")
	w.checkObjects(true)
	w.endLarge(tenant, `{target: {persistentVolumeClaim: "${254}"}}`)
	w.endLarge(node, `{driver: {name: a, nodeID: b, endpoint: "${endpoint}a"}}`)
	w.setRevision("csiaddonsnodes", "2.1")
	w.installCRDs(1, "its annotation "+v1alpha1.RevisionAnnotation+" is 2.1, which is no number")
	for name, want := range map[string]string{
		"networkfences": "99", "reclaimspacejobs": "4", "csiaddonsnodes": "2.1",
	} {
		got := w.crd(name).Annotations[v1alpha1.RevisionAnnotation]
		assert.Check(w, is.Equal(got, want), "the revision of %s", name)
	}
}

// checkOtherVersion checks that the installation refuses a CRD of others that cannot be used.
func (w *world) checkOtherVersion() {
	w.Helper()
	crd := w.ownCRDs()["networkfences"]
	w.must(client.IgnoreNotFound(w.client.Delete(w.Context(), crd.DeepCopy())))
	w.awaitGone(crd.DeepCopy())
	removeOurFields(crd)
	crd.Spec.Versions[0].Name = "v2"
	w.createCRD(crd)
	output, err := w.script("install-crds.sh", "--csi-addons")
	assert.Check(w, err != nil && strings.Contains(output, "does not serve the version v1alpha1"),
		"the script ended with %v:\n%s", err, output)
}

// crd returns a CRD of the cluster by the plural of its kind.
func (w *world) crd(plural string) *apiextensionsv1.CustomResourceDefinition {
	w.Helper()
	found := &apiextensionsv1.CustomResourceDefinition{}
	w.must(w.client.Get(w.Context(), types.NamespacedName{Name: plural + "." + v1alpha1.Group}, found))
	return found
}

// ownCRDs returns the CRDs of this repository by the plural of their kind.
func (w *world) ownCRDs() map[string]*apiextensionsv1.CustomResourceDefinition {
	w.Helper()
	files, err := filepath.Glob(crdFolder + "*.yaml")
	w.must(err)
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		w.must(err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		w.must(yaml.UnmarshalStrict(text, crd))
		crds[crd.Spec.Names.Plural] = crd
	}
	assert.Assert(w, is.Len(crds, 5))
	return crds
}

// removeOurFields makes a CRD that of the CSI-Addons for Ceph, with a field that ours lacks.
func removeOurFields(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Annotations = nil
	version := &crd.Spec.Versions[0]
	version.AdditionalPrinterColumns = nil
	status := version.Schema.OpenAPIV3Schema.Properties["status"]
	for _, field := range addedStatus()[crd.Spec.Names.Plural] {
		delete(status.Properties, field)
	}
	if status.Properties == nil {
		status.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	}
	status.Properties["fieldOfALaterRelease"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	version.Schema.OpenAPIV3Schema.Properties["status"] = status
	removeLimits(version.Schema.OpenAPIV3Schema.Properties["spec"])
}

// removeLimits removes the limits of texts from a schema. The CSI-Addons for Ceph have none.
func removeLimits(schema apiextensionsv1.JSONSchemaProps) {
	for name, property := range schema.Properties {
		property.MaxLength = nil
		removeLimits(property)
		schema.Properties[name] = property
	}
}

// createCRD creates a CRD and waits until the API server serves it.
func (w *world) createCRD(crd *apiextensionsv1.CustomResourceDefinition) {
	w.Helper()
	w.create(crd)
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(crd), crd)
		return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established), err
	})
}

// setRevision installs our CRD with another revision and without limits, as another release does.
func (w *world) setRevision(plural, revision string) {
	w.Helper()
	text, err := os.ReadFile(crdFolder + plural + ".yaml")
	w.must(err)
	annotation := regexp.QuoteMeta(v1alpha1.RevisionAnnotation) + `: "\d+"`
	other := regexp.MustCompile(annotation).ReplaceAllLiteral(text,
		[]byte(v1alpha1.RevisionAnnotation+`: "`+revision+`"`))
	other = regexp.MustCompile(`\n *maxLength: \d+`).ReplaceAllLiteral(other, nil)
	w.must(w.client.Patch(w.Context(), w.crd(plural), client.RawPatch(types.ApplyPatchType, other),
		client.FieldOwner("csi-addons-openstack")))
}

// installCRDs runs the script, which must print a reason so many times.
func (w *world) installCRDs(times int, reason string) {
	w.Helper()
	output, err := w.script("install-crds.sh", "--csi-addons")
	if err != nil || reason != "" && strings.Count(output, "stays: "+reason) != times {
		w.Fatalf("the script ended with %v, and not with %d CRDs that stay because %q:\n%s",
			err, times, reason, output)
	}
}

// script runs a script of hack/ as an administrator, and returns its output.
func (w *world) script(name string, args ...string) (string, error) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), filepath.Join("../../hack", name), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.dir.AdminKubeconfig(),
		"PATH="+w.kubernetes+":"+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// storedReason writes a status with a field that only our CRD contains, and returns what is stored.
func (w *world) storedReason() string {
	w.Helper()
	job, stored := newJob("stored", "data"), &v1alpha1.ReclaimSpaceJob{}
	w.create(job)
	job.Status.Result, job.Status.Reason = v1alpha1.OperationFailed, "Tested"
	w.must(w.client.Status().Update(w.Context(), job))
	w.must(w.client.Get(w.Context(), client.ObjectKeyFromObject(job), stored))
	w.must(w.client.Delete(w.Context(), job))
	assert.Check(w, is.Equal(stored.Status.Result, v1alpha1.OperationFailed))
	return stored.Status.Reason
}

// parse parses YAML in which ${63} is a text of 63 bytes.
func (w *world) parse(text string, into any) {
	w.Helper()
	known := map[string]int{
		"endpoint": wire.MaxEndpoint, "schedule": controller.MaxSchedule,
		"huge": 1 << 20, // as much as fits into an object
	}
	w.must(yaml.UnmarshalStrict([]byte(os.Expand(text, func(length string) string {
		number, _ := strconv.Atoi(length) // 0 if it is a name
		return strings.Repeat("a", cmp.Or(number, known[length]))
	})), into))
}

// object returns an object with a name of its own.
func object(kind string, spec map[string]any) *unstructured.Unstructured {
	found := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
	if spec != nil {
		found.Object["spec"] = maps.Clone(spec)
	}
	found.SetAPIVersion(v1alpha1.GroupVersion().String())
	found.SetGenerateName("test-")
	if !strings.HasPrefix(kind, "NetworkFence") {
		found.SetNamespace(metav1.NamespaceDefault)
	}
	return found
}

// checkObjects lets the API server check the objects of a file with the CRDs that are installed.
func (w *world) checkObjects(ours bool) {
	w.Helper()
	text, err := os.ReadFile("testdata/objects.yaml")
	w.must(err)
	var all []struct {
		Kind         string
		Spec, Stored map[string]any
		Refused      string
		Ours         bool
		Changes      []struct {
			Spec    map[string]any
			Refused string
		}
	}
	w.parse(string(text), &all)
	for _, one := range all {
		if one.Ours && !ours {
			continue
		}
		created, what := object(one.Kind, one.Spec), fmt.Sprintf("%s %.200v", one.Kind, one.Spec)
		w.expect(what, one.Refused, func(ctx context.Context) error {
			return w.client.Create(ctx, created.DeepCopy(), client.DryRunAll)
		})
		if one.Refused != "" {
			continue
		}
		w.create(created)
		if one.Stored != nil {
			got, want := string(w.json(created.Object["spec"])), string(w.json(one.Stored))
			assert.Check(w, is.Equal(got, want), what)
		}
		for _, change := range one.Changes {
			patch := client.RawPatch(types.MergePatchType, w.json(map[string]any{"spec": change.Spec}))
			w.expect(fmt.Sprintf("%s becomes %.200v", what, change.Spec), change.Refused,
				func(ctx context.Context) error {
					return w.client.Patch(ctx, created.DeepCopy(), patch, client.DryRunAll)
				})
		}
		w.must(w.client.Delete(w.Context(), created))
	}
}

func (w *world) json(value any) []byte {
	w.Helper()
	text, err := json.Marshal(value)
	w.must(err)
	return text
}

// expect waits until the API server returns an error with a text, or no error if the text is empty:
// it may still use the previous CRD.
func (w *world) expect(what, text string, request func(context.Context) error) {
	w.Helper()
	var got error
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, soon, true,
		func(ctx context.Context) (bool, error) {
			got = request(ctx)
			return (got == nil) == (text == "") && strings.Contains(fmt.Sprint(got), text), nil
		})
	assert.Check(w, err, "%s: the API server returns %v, want %q", what, got, text)
}

// createLarge creates an object that fills the memory of the controller, as a tenant can, or
// somebody with root on a node.
func (w *world) createLarge(kind, spec string) *unstructured.Unstructured {
	w.Helper()
	var parsed map[string]any
	w.parse(spec, &parsed)
	large := object(kind, parsed)
	large.SetFinalizers([]string{v1alpha1.CSIAddonsNodeFinalizer})
	w.expect(kind, "", func(ctx context.Context) error { return w.client.Create(ctx, large) })
	return large
}

// endLarge writes the status of an object that the CRD does not allow any more, deletes it, and
// removes its finalizer, as the controller does: it has only a part of the object. The rest must
// stay.
func (w *world) endLarge(large *unstructured.Unstructured, part string) {
	w.Helper()
	written := large.DeepCopy()
	var spec map[string]any
	w.parse(part, &spec)
	written.Object["spec"], written.Object["status"] = spec, map[string]any{"message": "a"}
	w.must(w.client.Status().Update(w.Context(), written))
	w.must(w.client.Status().Patch(w.Context(), written,
		client.RawPatch(types.MergePatchType, []byte(`{"status": {"message": "b"}}`))))
	message, _, _ := unstructured.NestedString(written.Object, "status", "message")
	same := string(w.json(large.Object["spec"])) == string(w.json(written.Object["spec"]))
	assert.Check(w, same && message == "b",
		"a write of the status has the message %q, and keeps the specification: %t", message, same)
	w.must(w.client.Delete(w.Context(), large))
	w.must(w.client.Patch(w.Context(), large,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))))
	w.awaitGone(large)
}
