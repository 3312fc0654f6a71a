//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"
)

// The containers of CSI-Addons, and the CRD that makes the operator add them.
const (
	addonsSidecar = "csi-addons"
	addonsAdapter = "openstack-csi-addons"
	addonsCRD     = "csiaddonsnodes.csiaddons.openshift.io"
)

func addonsImages() []string {
	return []string{
		"CSI_ADDONS_SIDECAR_IMAGE=csi-addons:sidecar", "CSI_ADDONS_DRIVER_IMAGE=csi-addons:adapter",
	}
}

// installAddonsCRD creates the CRD of CSI-Addons. The cleanup deletes it.
func (e *env) installAddonsCRD() {
	e.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "assets", "csi-addons", "crd", "generated",
		"csiaddons.openshift.io_csiaddonsnodes.yaml"))
	e.must(err)
	var crd unstructured.Unstructured
	e.must(yaml.Unmarshal(text, &crd.Object))
	_, err = e.guest.create(e.ctx(), crds(), crd)
	e.must(err)
	e.afterwards(e.removeAddonsCRD)
}

// removeAddonsCRD deletes the CRD and waits until it is gone.
func (e *env) removeAddonsCRD(ctx context.Context) error {
	client := e.guest.dynamic.Resource(crds())
	err := ignoreNotFound(client.Delete(ctx, addonsCRD, metav1.DeleteOptions{}))
	if err != nil {
		return err
	}
	gone := func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, addonsCRD, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	}
	return wait.PollUntilContextTimeout(ctx, pollEvery, cleanUp, true, gone)
}

// configureAddons writes the image of CSI-Addons into the ConfigMap of the driver, and whether the
// sidecars accept tokens for the API server.
func (e *env) configureAddons(tokens bool) {
	e.t.Helper()
	text := fmt.Sprintf("apiVersion: config.csi.openstack.org/v1alpha1\nkind: %s\n"+
		"csiAddons: {image: csi-addons, apiServerTokens: %v}\n",
		ofSubject(e.subject, "ManilaConfig", "CinderConfig"), tokens)
	e.must(e.management.putConfigMap(e.ctx(), e.userConfigNamespace(),
		ofSubject(e.subject, manilaUserConfig, cinderUserConfig),
		map[string]string{"operator.yaml": text}))
}

// addonsContainers returns the containers of CSI-Addons by the name of their workload. In a hosted
// control plane no controller in the guest cluster reaches the pods of the Deployment, and those of
// Cinder would only serve the controller of another system. Nodes of Manila need no adapter.
func (e *env) addonsContainers() map[string][]string {
	added := map[string][]string{cinderNode: {addonsSidecar, addonsAdapter}}
	if e.subject.isManila() {
		added = map[string][]string{nodeName: {addonsSidecar}}
		if !e.isHosted() {
			added[controllerName] = []string{addonsSidecar, addonsAdapter}
		}
	}
	return added
}

// rolledOut returns nil if each of the workloads with CSI-Addons has had exactly this number of
// rollouts since before, the others none, and the containers exist or not.
func (e *env) rolledOut(before map[string]workload, rollouts int64, present bool) error {
	for name, earlier := range before {
		now, err := e.workload(name)
		if err != nil {
			return err
		}
		added := e.addonsContainers()[name]
		want := earlier.Generation
		if len(added) > 0 {
			want += rollouts
		}
		if now.Generation != want {
			return fmt.Errorf("the generation of %s is %d, want %d", name, now.Generation, want)
		}
		for _, container := range []string{addonsSidecar, addonsAdapter} {
			if found := now.hasContainer(container); found !=
				(present && slices.Contains(added, container)) {
				return fmt.Errorf("%s has container %s: %v", name, container, found)
			}
		}
	}
	return nil
}

// addonsPermissions returns the permissions of the sidecar in the cluster, and in its namespace.
func addonsPermissions() (everywhere, beside []rbacv1.PolicyRule) {
	everywhere = []rbacv1.PolicyRule{
		allow("", "persistentvolumes", "get"),
		allow("authentication.k8s.io", "tokenreviews", "create"),
		allow("authorization.k8s.io", "subjectaccessreviews", "create"),
	}
	const verbs = "list watch create patch delete"
	return everywhere, []rbacv1.PolicyRule{allow("csiaddons.openshift.io", "csiaddonsnodes", verbs)}
}

// nodesHaveAddonsPermissions returns nil if the ServiceAccount of the nodes has the permissions of
// the sidecar, or only its own.
func (e *env) nodesHaveAddonsPermissions(present bool) error {
	namespace := e.subject.OperandNamespace
	node := account{e.guest, namespace, ofSubject(e.subject, nodeAccount, cinderNode+"-sa")}
	var everywhere, beside []rbacv1.PolicyRule
	if present {
		everywhere, beside = addonsPermissions()
	}
	everywhere = append(everywhere,
		allow("security.openshift.io", "securitycontextconstraints", "use", "privileged"))
	return errors.Join(
		node.hasPermissions(e, namespace, slices.Concat(everywhere, beside)...),
		node.hasPermissions(e, metav1.NamespaceDefault, everywhere...),
	)
}

// controllersHaveAddons returns nil if the controllers have the permissions of the sidecar, and if
// the controller of CSI-Addons and Prometheus reach them, or if none of this is so.
func (e *env) controllersHaveAddons(present bool) error {
	namespace := e.subject.controllerNamespace
	controller := account{
		e.management, namespace, ofSubject(e.subject, controllerAccount, cinderController+"-sa"),
	}
	present = present && e.subject.isManila() && !e.isHosted()
	everywhere, beside := addonsPermissions()
	var errs []error
	for _, rule := range beside {
		errs = append(errs, controller.may(e, present, namespace, rule))
	}
	if !e.isHosted() {
		review := everywhere[len(everywhere)-1]
		errs = append(errs, controller.may(e, present, "", review))
	}
	prefix := ofSubject(e.subject, "manila-csi-driver", "openstack-cinder-csi-driver")
	_, err := e.management.kube.NetworkingV1().NetworkPolicies(namespace).
		Get(e.ctx(), prefix+"-ingress-csi-addons", metav1.GetOptions{})
	if (err == nil) != present {
		errs = append(errs, fmt.Errorf("the NetworkPolicy exists: %v", err == nil))
	}
	if !e.isHosted() {
		monitors := collection{resource("monitoring.coreos.com", "servicemonitors"), namespace}
		monitor, err := e.management.of(monitors).
			Get(e.ctx(), prefix+"-controller-monitor", metav1.GetOptions{})
		if err != nil || strings.Contains(fmt.Sprint(monitor.Object), "csi-addons-m") != present {
			errs = append(errs, err, fmt.Errorf("the ServiceMonitor is %v", monitor))
		}
	}
	return errors.Join(errs...)
}

// followsAddonsCRD checks that the arrival of the CRD causes exactly one rollout, that CSI-Addons
// stays active after the deletion of the CRD, also if the operator restarts, and that an operator
// without the images removes everything. A unit test checks how long CSI-Addons stays active.
func (e *env) followsAddonsCRD() {
	e.awaitAvailable()
	e.awaitNoWrites()
	before := e.workloads()
	e.must(e.rolledOut(before, 0, false))
	e.must(e.nodesHaveAddonsPermissions(false))
	e.must(e.controllersHaveAddons(false))
	active := ofSubject(e.subject, "Manila", "Cinder") + "CSIAddonsActive"
	e.must(e.hasCondition(active, opv1.ConditionFalse, "NoCustomResourceDefinition", addonsCRD))

	e.installAddonsCRD()
	e.eventually(soon, func() error { return e.rolledOut(before, 1, true) })
	e.eventually(soon, func() error { return e.nodesHaveAddonsPermissions(true) })
	e.eventually(soon, func() error { return e.controllersHaveAddons(true) })
	where := "pods of the driver"
	if e.isHosted() {
		where = "NetworkFence is not available in a guest cluster"
	}
	e.eventually(soon, func() error {
		return e.hasCondition(active, opv1.ConditionTrue, "AsExpected", where)
	})
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(e.rolledOut(before, 1, true))
	e.mustBeRestricted()
	for name := range e.addonsContainers() {
		e.mustBeGolden(filepath.Join(string(e.flavour), "csi-addons"), name)
	}

	e.must(e.removeAddonsCRD(e.ctx()))
	e.expectNoWritesDuring(2)
	e.must(e.rolledOut(before, 1, true))
	e.restartOperator()
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(e.rolledOut(before, 1, true))

	e.options.Env = slices.DeleteFunc(slices.Clone(e.options.Env), func(variable string) bool {
		return slices.Contains(addonsImages(), variable)
	})
	e.restartOperator()
	e.eventually(installed, func() error { return e.rolledOut(before, 2, false) })
	e.eventually(soon, func() error { return e.nodesHaveAddonsPermissions(false) })
	e.eventually(soon, func() error { return e.controllersHaveAddons(false) })
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(e.rolledOut(before, 2, false))
	after := e.workloads()
	for name, w := range after {
		w.Generation = before[name].Generation
		after[name] = w
	}
	e.must(checkEqual(before, after))
	e.must(e.hasNoCondition(active))
	e.must(e.notDegraded())
	if !e.subject.isManila() && !e.isHosted() {
		e.servesOtherControllers()
	}
}

// servesOtherControllers checks that the pods of Cinder's controller get CSI-Addons for a
// controller that sends tokens for the API server.
func (e *env) servesOtherControllers() {
	e.t.Helper()
	e.installAddonsCRD()
	e.configureAddons(true)
	e.eventually(installed, func() error {
		controller, err := e.workload(cinderController)
		if err != nil {
			return err
		}
		if !controller.hasContainer(addonsSidecar) {
			return errors.New("there is no sidecar")
		}
		_, err = e.management.kube.NetworkingV1().NetworkPolicies(e.subject.controllerNamespace).
			Get(e.ctx(), "openstack-cinder-csi-driver-ingress-csi-addons", metav1.GetOptions{})
		return err
	})
	e.awaitAvailable()
}
