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

// TestCRDs checks what the API server accepts with the CRDs of the CSI-Addons for Ceph and with
// ours, and that the installation does not change the CRDs of other programs. It refuses one
// without the version.
func TestCRDs(t *testing.T) {
	t.Parallel()
	c := borrow(t)
	ours := c.ownCRDs()

	foreign := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for name, crd := range ours {
		foreign[name] = c.createCRD(existing(crd))
	}
	c.installCRDs(len(ours), "another program has installed it")
	for name, before := range foreign {
		after, err := c.crds().Get(t.Context(), before.Name, metav1.GetOptions{})
		c.must(err)
		if before.Generation != after.Generation || len(after.Annotations) > 0 {
			t.Errorf("the installation has changed %s of another program", name)
		}
	}
	c.checkObjects()
	if got := c.storedReason(); got != "" {
		t.Errorf("a CRD without the field stores the reason %q", got)
	}
	for _, crd := range foreign {
		c.removeCRD(crd.Name)
	}

	c.installCRDs(0, "")
	c.checkObjects()
	if got := c.storedReason(); got != "Tested" {
		t.Errorf("our CRD stores the reason %q, want Tested", got)
	}

	c.checkLimits()
	c.setRevision("networkfences", "99")
	c.setRevision("reclaimspacejobs", "2") // which had no limits
	c.setRevision("csiaddonsnodes", "1")   // the same
	tenant, node := c.largeJob(), c.largeNode()
	c.installCRDs(1, "a later release has installed it (revision 99, not 1)")
	c.checkLimits()
	c.endLargeJob(tenant)
	c.endLargeNode(node)
	c.setRevision("csiaddonsnodes", "2.1")
	c.installCRDs(1, "its annotation "+v1alpha1.RevisionAnnotation+" is 2.1, which is no number")
	for name, want := range map[string]string{
		"networkfences": "99", "reclaimspacejobs": "3", "csiaddonsnodes": "2.1",
	} {
		got, err := c.crds().Get(t.Context(), name+"."+v1alpha1.Group, metav1.GetOptions{})
		c.must(err)
		if revision := got.Annotations[v1alpha1.RevisionAnnotation]; revision != want {
			t.Errorf("%s has the revision %s, want %s", name, revision, want)
		}
	}
	c.checkOtherVersion()
}

// checkOtherVersion replaces our CRD by one of others that cannot be used.
func (c *world) checkOtherVersion() {
	c.Helper()
	crd := existing(c.ownCRDs()["networkfences"])
	crd.Spec.Versions[0].Name = "v2"
	c.removeCRD(crd.Name)
	c.createCRD(crd)
	output, err := c.script("install-crds.sh", "--csi-addons")
	if err == nil || !strings.Contains(output, "does not serve the version v1alpha1") {
		c.Errorf("the script ended with %v:\n%s", err, output)
	}
}

func (c *world) crds() typed.CustomResourceDefinitionInterface {
	c.Helper()
	client, err := typed.NewForConfig(c.config)
	c.must(err)
	return client.CustomResourceDefinitions()
}

// ownCRDs returns the CRDs of this repository by the plural of their kind.
func (c *world) ownCRDs() map[string]*apiextensionsv1.CustomResourceDefinition {
	c.Helper()
	files, err := filepath.Glob(crdFolder + "*.yaml")
	c.must(err)
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		c.must(err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		c.must(yaml.UnmarshalStrict(text, crd))
		crds[crd.Spec.Names.Plural] = crd
	}
	if len(crds) != 5 {
		c.Fatalf("found %d CRDs, want 5", len(crds))
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
func (c *world) createCRD(crd *apiextensionsv1.CustomResourceDefinition,
) *apiextensionsv1.CustomResourceDefinition {
	c.Helper()
	_, err := c.crds().Create(c.Context(), crd, metav1.CreateOptions{})
	c.must(err)
	var created *apiextensionsv1.CustomResourceDefinition
	c.eventually(func(ctx context.Context) (bool, error) {
		created, err = c.crds().Get(ctx, crd.Name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(created.Status.Conditions,
			func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return condition.Type == apiextensionsv1.Established &&
					condition.Status == apiextensionsv1.ConditionTrue
			}), err
	})
	return created
}

func (c *world) removeCRD(name string) {
	c.Helper()
	c.must(c.crds().Delete(c.Context(), name, metav1.DeleteOptions{}))
	c.eventually(func(ctx context.Context) (bool, error) {
		_, err := c.crds().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// setRevision installs our CRD with another revision and without limits, as another release does.
func (c *world) setRevision(plural, revision string) {
	c.Helper()
	text, err := os.ReadFile(crdFolder + plural + ".yaml")
	c.must(err)
	annotation := regexp.QuoteMeta(v1alpha1.RevisionAnnotation) + `: "\d+"`
	other := regexp.MustCompile(annotation).ReplaceAllLiteral(text,
		[]byte(v1alpha1.RevisionAnnotation+`: "`+revision+`"`))
	other = regexp.MustCompile(`\n *maxLength: \d+`).ReplaceAllLiteral(other, nil)
	_, err = c.crds().Patch(c.Context(), plural+"."+v1alpha1.Group, types.ApplyPatchType,
		other, metav1.PatchOptions{FieldManager: "csi-addons-openstack"})
	c.must(err)
}

// installCRDs runs the script, which must print a reason so many times.
func (c *world) installCRDs(times int, reason string) {
	c.Helper()
	output, err := c.script("install-crds.sh", "--csi-addons")
	if err != nil || reason != "" && strings.Count(output, "stays: "+reason) != times {
		c.Fatalf("the script ended with %v, and not with %d CRDs that stay because %q:\n%s",
			err, times, reason, output)
	}
}

// script runs a script of hack/ as an administrator, and returns its output.
func (c *world) script(name string, args ...string) (string, error) {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), filepath.Join("../../hack", name), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.dir.AdminKubeconfig(),
		"PATH="+c.kubernetes+":"+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// storedReason writes a status with a field that only our CRD contains, and returns what is stored.
func (c *world) storedReason() string {
	c.Helper()
	jobs := c.dynamic.Resource(v1alpha1.GroupVersion().WithResource("reclaimspacejobs")).
		Namespace("default")
	job := c.object("kind: ReclaimSpaceJob\nspec: {target: {persistentVolumeClaim: data}}")
	created, err := jobs.Create(c.Context(), job, metav1.CreateOptions{})
	c.must(err)
	c.must(unstructured.SetNestedField(created.Object, "Failed", "status", "result"))
	c.must(unstructured.SetNestedField(created.Object, "Tested", "status", "reason"))
	updated, err := jobs.UpdateStatus(c.Context(), created, metav1.UpdateOptions{})
	c.must(err)
	result, _, err := unstructured.NestedString(updated.Object, "status", "result")
	c.must(err)
	if diff := cmp.Diff("Failed", result); diff != "" {
		c.Errorf("result (-want +got):\n%s", diff)
	}
	reason, _, err := unstructured.NestedString(updated.Object, "status", "reason")
	c.must(err)
	c.must(jobs.Delete(c.Context(), created.GetName(), metav1.DeleteOptions{}))
	return reason
}
