//go:build integration && long

package csiaddons

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	typed "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
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

// checkCRDs checks what the API server accepts with the CRDs of the CSI-Addons for Ceph and with
// ours, and that the installation does not change the CRDs of other programs.
func (w *world) checkCRDs() {
	ours := w.ownCRDs()

	foreign := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for name, crd := range ours {
		foreign[name] = w.createCRD(existing(crd))
	}
	w.installCRDs(len(ours), "another program has installed it")
	for name, before := range foreign {
		after, err := w.crds().Get(w.Context(), before.Name, metav1.GetOptions{})
		w.must(err)
		if before.Generation != after.Generation || len(after.Annotations) > 0 {
			w.Errorf("the installation has changed %s of another program", name)
		}
	}
	w.checkObjects()
	if got := w.storedReason(); got != "" {
		w.Errorf("a CRD without the field stores the reason %q", got)
	}
	for _, crd := range foreign {
		w.removeCRD(crd.Name)
	}

	w.installCRDs(0, "")
	w.checkObjects()
	if got := w.storedReason(); got != "Tested" {
		w.Errorf("our CRD stores the reason %q, want Tested", got)
	}

	w.checkLimits()
	w.setRevision("networkfences", "99")
	w.setRevision("reclaimspacejobs", "2") // which had no limits
	w.setRevision("csiaddonsnodes", "1")   // the same
	tenant, node := w.largeJob(), w.largeNode()
	w.installCRDs(1, "a later release has installed it (revision 99, not 2)")
	w.checkLimits()
	w.endLargeJob(tenant)
	w.endLargeNode(node)
	w.setRevision("csiaddonsnodes", "2.1")
	w.installCRDs(1, "its annotation "+v1alpha1.RevisionAnnotation+" is 2.1, which is no number")
	for name, want := range map[string]string{
		"networkfences": "99", "reclaimspacejobs": "4", "csiaddonsnodes": "2.1",
	} {
		got, err := w.crds().Get(w.Context(), name+"."+v1alpha1.Group, metav1.GetOptions{})
		w.must(err)
		if revision := got.Annotations[v1alpha1.RevisionAnnotation]; revision != want {
			w.Errorf("%s has the revision %s, want %s", name, revision, want)
		}
	}
}

// checkOtherVersion checks that the installation refuses a CRD of others that cannot be used.
func (w *world) checkOtherVersion() {
	w.Helper()
	crd := existing(w.ownCRDs()["networkfences"])
	crd.Spec.Versions[0].Name = "v2"
	w.removeCRD(crd.Name)
	w.createCRD(crd)
	output, err := w.script("install-crds.sh", "--csi-addons")
	if err == nil || !strings.Contains(output, "does not serve the version v1alpha1") {
		w.Errorf("the script ended with %v:\n%s", err, output)
	}
}

func (w *world) crds() typed.CustomResourceDefinitionInterface {
	w.Helper()
	client, err := typed.NewForConfig(w.config)
	w.must(err)
	return client.CustomResourceDefinitions()
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
	if len(crds) != 5 {
		w.Fatalf("found %d CRDs, want 5", len(crds))
	}
	return crds
}

// existing returns the CRD of the CSI-Addons for Ceph, with a field that ours does not contain.
func existing(
	own *apiextensionsv1.CustomResourceDefinition,
) *apiextensionsv1.CustomResourceDefinition {
	crd := own.DeepCopy()
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
	return crd
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
func (w *world) createCRD(crd *apiextensionsv1.CustomResourceDefinition,
) *apiextensionsv1.CustomResourceDefinition {
	w.Helper()
	_, err := w.crds().Create(w.Context(), crd, metav1.CreateOptions{})
	w.must(err)
	var created *apiextensionsv1.CustomResourceDefinition
	w.eventually(func(ctx context.Context) (bool, error) {
		created, err = w.crds().Get(ctx, crd.Name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(created.Status.Conditions,
			func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return condition.Type == apiextensionsv1.Established &&
					condition.Status == apiextensionsv1.ConditionTrue
			}), err
	})
	return created
}

func (w *world) removeCRD(name string) {
	w.Helper()
	err := w.crds().Delete(w.Context(), name, metav1.DeleteOptions{})
	w.must(client.IgnoreNotFound(err))
	w.eventually(func(ctx context.Context) (bool, error) {
		_, err := w.crds().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
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
	_, err = w.crds().Patch(w.Context(), plural+"."+v1alpha1.Group, types.ApplyPatchType,
		other, metav1.PatchOptions{FieldManager: "csi-addons-openstack"})
	w.must(err)
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
	jobs := w.dynamic.Resource(v1alpha1.GroupVersion().WithResource("reclaimspacejobs")).
		Namespace("default")
	job := w.object("kind: ReclaimSpaceJob\nspec: {target: {persistentVolumeClaim: data}}")
	created, err := jobs.Create(w.Context(), job, metav1.CreateOptions{})
	w.must(err)
	w.must(unstructured.SetNestedField(created.Object, "Failed", "status", "result"))
	w.must(unstructured.SetNestedField(created.Object, "Tested", "status", "reason"))
	updated, err := jobs.UpdateStatus(w.Context(), created, metav1.UpdateOptions{})
	w.must(err)
	result, _, err := unstructured.NestedString(updated.Object, "status", "result")
	w.must(err)
	if diff := cmp.Diff("Failed", result); diff != "" {
		w.Errorf("result (-want +got):\n%s", diff)
	}
	reason, _, err := unstructured.NestedString(updated.Object, "status", "reason")
	w.must(err)
	w.must(jobs.Delete(w.Context(), created.GetName(), metav1.DeleteOptions{}))
	return reason
}
