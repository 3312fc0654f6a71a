//go:build integration

package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const (
	provisionerBinding = "openstack-manila-csi-main-provisioner-binding"
	metricsService     = "manila-csi-driver-controller-metrics"
	nodeAccount        = "manila-csi-driver-node-sa"
)

func (e *env) setManagementState(state opv1.ManagementState) {
	e.t.Helper()
	e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.ManagementState = state })
}

// writesNothingWhileUnmanaged checks that Managed reverts all changes.
func (e *env) writesNothingWhileUnmanaged() {
	e.awaitAvailable()
	want := e.passwordTranslation()
	e.setManagementState(opv1.Unmanaged)
	since := e.awaitNoWrites()

	e.patch(resource("apps", "deployments"), operandNamespace, controllerName,
		`{"spec":{"replicas":1}}`)
	e.patch(resource("apps", "daemonsets"), operandNamespace, nodeName,
		`{"spec":{"template":{"spec":{"priorityClassName":null}}}}`)
	e.patch(secrets(), operandNamespace, loginSecret, `{"stringData":{"os-region":"elsewhere"}}`)
	e.delete(resource("rbac.authorization.k8s.io", "clusterrolebindings"), "", provisionerBinding)
	e.delete(resource("storage.k8s.io", "storageclasses"), "", "csi-manila-default")
	e.delete(resource("storage.k8s.io", "csidrivers"), "", driverName)
	e.awaitNoWritesFor(3 * time.Second)
	e.expectNone("the operator wrote while Unmanaged", e.writes(since))

	e.setManagementState(opv1.Managed)
	e.eventually(soon, func() error {
		deployment, err := e.deployment()
		if err != nil {
			return err
		}
		node, err := e.workload(nodeName)
		if err != nil {
			return err
		}
		if replicas := *deployment.Spec.Replicas; replicas != 2 ||
			node.Pod.PriorityClassName != "system-node-critical" {
			return fmt.Errorf("the workloads have %d replicas and priority %q, want them reverted", replicas,
				node.Pod.PriorityClassName)
		}
		_, bindingErr := e.guest.kube.RbacV1().ClusterRoleBindings().
			Get(e.ctx(), provisionerBinding, metav1.GetOptions{})
		_, driverErr := e.guest.kube.StorageV1().CSIDrivers().
			Get(e.ctx(), driverName, metav1.GetOptions{})
		return errors.Join(e.hasTranslation(want), e.hasClasses("csi-manila-default"), bindingErr,
			driverErr)
	})
	e.awaitAvailable()
}

// refusesRemoved checks that a condition says so and that nothing is deleted.
func (e *env) refusesRemoved() {
	e.awaitAvailable()
	since, before := e.awaitNoWrites(), e.workloads()
	e.setManagementState(opv1.Removed)
	e.eventually(prompt, func() error {
		return e.hasCondition("ManagementStateDegraded", opv1.ConditionTrue, "Removed")
	})
	e.must(e.reports("ManagementStateDegraded", "Removed is not supported",
		"Set spec.managementState of ClusterCSIDriver "+driverName+" to Managed"))
	e.awaitNoWritesFor(2 * time.Second)
	e.expectNone("the operator deleted", e.requests(since, deletions))
	e.mustHaveWorkloads(before)
	e.setManagementState(opv1.Managed)
	e.eventually(prompt, func() error {
		return e.hasCondition("ManagementStateDegraded", opv1.ConditionFalse, "")
	})
}

// repairedObject is a static object of the driver.
type repairedObject struct {
	collection

	name string
	// edits are changes that the operator must revert.
	edits []string
}

func repairedObjects() []repairedObject {
	return []repairedObject{
		{
			collection{resource("rbac.authorization.k8s.io", "clusterrolebindings"), ""},
			provisionerBinding,
			[]string{`{"subjects":[]}`},
		},
		{
			collection{resource("", "services"), operandNamespace},
			metricsService,
			[]string{`{"spec":{"ports":[{"name":"other","port":1,"protocol":"TCP"}]}}`},
		},
		{
			collection{resource("policy", "poddisruptionbudgets"), operandNamespace},
			"openstack-manila-csi-controllerplugin-pdb",
			[]string{`{"spec":{"maxUnavailable":2}}`},
		},
		{collection{resource("", "serviceaccounts"), operandNamespace}, nodeAccount, nil},
		{collection{resource("storage.k8s.io", "csidrivers"), ""}, driverName, []string{
			`{"metadata":{"annotations":{"csi.openshift.io/managed":"false"}}}`,
			`{"spec":{"fsGroupPolicy":"None"}}`, `{"spec":{"podInfoOnMount":true}}`,
		}},
	}
}

// content returns what the operator determines of the object.
func (o repairedObject) content(e *env) (map[string]any, error) {
	object, err := e.guest.of(o.collection).Get(e.ctx(), o.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	annotations := object.GetAnnotations()
	for _, fields := range []string{"metadata", "status", "spec clusterIP", "spec clusterIPs"} {
		unstructured.RemoveNestedField(object.Object, strings.Fields(fields)...)
	}
	return map[string]any{"annotations": annotations, "object": object.Object}, nil
}

// repairsStaticObjects edits objects, and deletes them in the end.
func (e *env) repairsStaticObjects() {
	e.awaitAvailable()
	e.must(e.hasCSIDriver())
	for _, o := range repairedObjects() {
		want, err := o.content(e)
		e.must(err)
		for _, edit := range append(o.edits, "") {
			e.sub(o.resource.Resource+" "+edit, func(*testing.T) {
				if edit == "" {
					e.delete(o.resource, o.namespace, o.name)
				} else {
					e.patch(o.resource, o.namespace, o.name, edit)
				}
				e.eventually(prompt, func() error {
					got, err := o.content(e)
					if err != nil {
						return err
					}
					return checkEqual(want, got)
				})
			})
		}
	}
	e.eventually(soon, e.notDegraded)
}

func TestObjectsAreMaintained(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Env: []string{"CSI_FSGROUP_POLICY=File"}})
	e.parts(
		part{"RecreatesOptionalObjects", e.recreatesOptionalObjects},
		part{"AcceptsMonitoring", e.acceptsMonitoring},
		part{"KeepsDeletionPolicy", e.keepsDeletionPolicy},
		part{"RepairsStaticObjects", e.repairsStaticObjects},
		part{"RefusesRemoved", e.refusesRemoved},
		part{"WritesNothingWhileUnmanaged", e.writesNothingWhileUnmanaged},
	)
}

// hasCSIDriver returns nil if the CSIDriver has the policy of CSI_FSGROUP_POLICY.
func (e *env) hasCSIDriver() error {
	driver, err := e.guest.kube.StorageV1().CSIDrivers().Get(e.ctx(), driverName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return checkEqual([]any{"true", storagev1.FileFSGroupPolicy, false}, []any{
		driver.Annotations["csi.openshift.io/managed"], ptr.Deref(driver.Spec.FSGroupPolicy, ""),
		*driver.Spec.PodInfoOnMount,
	})
}

// acceptsMonitoring checks that the CRDs of Prometheus Operator have all fields of the generated
// ServiceMonitors and of the PrometheusRule. Without this check, the API server would ignore a
// misspelt field.
func (e *env) acceptsMonitoring() {
	kinds := map[string]int{}
	assets := os.DirFS("../../assets")
	for _, folder := range []string{"drivers", "monitoring"} {
		e.must(fs.WalkDir(assets, folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".yaml") {
				return err
			}
			text, err := fs.ReadFile(assets, path)
			if err != nil || !bytes.Contains(text, []byte("\napiVersion: monitoring.coreos.com/")) {
				return err
			}
			e.sub(path, func(*testing.T) { kinds[e.createStrictly(text)]++ })
			return nil
		}))
	}
	assert.Check(e.t, kinds["ServiceMonitor"] != 0 && kinds["PrometheusRule"] != 0,
		"there are only %v", kinds)
}

// createStrictly creates an object in a dry run that refuses unknown fields. It returns the kind.
func (e *env) createStrictly(text []byte) string {
	e.t.Helper()
	object := &unstructured.Unstructured{}
	e.must(yaml.Unmarshal(text, &object.Object))
	object.SetName("strict") // the operator may have created an object with its name
	object.SetNamespace(flavour.DefaultNamespace)
	kind := object.GetKind()
	resource := resource("monitoring.coreos.com", strings.ToLower(kind)+"s")
	_, err := e.guest.of(collection{resource, object.GetNamespace()}).Create(e.ctx(), object,
		metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		})
	e.must(err)
	return kind
}
