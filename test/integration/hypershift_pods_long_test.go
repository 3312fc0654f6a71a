//go:build integration && long

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	configv1 "github.com/openshift/api/config/v1"
)

// Registries of the images of the guest cluster's release and of the management cluster's release.
const (
	guestRegistry        = "guest.example.com/"
	controlPlaneRegistry = "management.example.com/"
)

// releaseImages returns the image variables that cluster-storage-operator passes for both releases.
func releaseImages() []string {
	var variables []string
	for _, name := range []string{
		"DRIVER", "NFS_DRIVER", "LIVENESS_PROBE", "KUBE_RBAC_PROXY",
		"NODE_DRIVER_REGISTRAR",
	} {
		variables = append(variables, name+"_IMAGE="+guestRegistry+strings.ToLower(name))
	}
	for _, name := range []string{
		"PROVISIONER", "ATTACHER", "RESIZER", "SNAPSHOTTER",
		"DRIVER_CONTROL_PLANE", "LIVENESS_PROBE_CONTROL_PLANE",
		"KUBE_RBAC_PROXY_CONTROL_PLANE", "NFS_DRIVER_CONTROL_PLANE",
	} {
		variables = append(variables, name+"_IMAGE="+controlPlaneRegistry+strings.ToLower(name))
	}
	return variables
}

// proxies returns proxy variables with a password.
func proxies(of string) map[string]string {
	return map[string]string{
		"HTTP_PROXY":  "http://user:leaked-by-" + of + "@" + of + ":3128",
		"HTTPS_PROXY": "http://" + of + ":3129", "NO_PROXY": "." + of + ",.svc,127.0.0.1",
	}
}

// TestHyperShiftUsesVariablesOfManagementCluster checks the variables that differ from those of a
// standalone operator. TestHyperShiftGoldenWorkloads checks the resulting workloads.
func TestHyperShiftUsesVariablesOfManagementCluster(t *testing.T) {
	t.Parallel()
	environment := releaseImages()
	for name, value := range proxies("management") {
		environment = append(environment, name+"="+value)
	}
	o := options{Env: environment, Before: func(e *env) {
		e.proxyPasswords = []string{"leaked-by-management", "leaked-by-guest"}
		e.setOperatorVersion("null")
	}}
	eachHosted(t, o, func(_ *testing.T, e *hostedEnv) {
		e.parts(
			part{"RefusesWrongSettings", e.refusesWrongSettings},
			part{"UsesProxyOfEachCluster", e.usesProxyOfEachCluster},
			part{"ReportsVersionAfterRollout", e.reportsVersionAfterRollout},
			part{"UsesImagesOfEachRelease", e.usesImagesOfEachRelease},
			part{"PrefersVersionOfVariable", e.prefersVersionOfVariable},
		)
	})
}

// usesImagesOfEachRelease checks init containers, too. If cluster-storage-operator does not pass an
// image of the management cluster's release, the operator uses the guest cluster's and logs it.
func (e *hostedEnv) usesImagesOfEachRelease() {
	const warning = "_CONTROL_PLANE_IMAGE is missing"
	e.awaitAvailable()
	e.must(e.hasImages(func(string) bool { return false }))
	if strings.Contains(e.log(), warning) {
		e.t.Error("the log contains a warning, although no image is missing")
	}
	// An empty variable counts as missing. The manifests contain both; cluster-storage-operator does
	// not pass the second one.
	e.options.Env = append(e.options.Env,
		"LIVENESS_PROBE_CONTROL_PLANE_IMAGE=", "NFS_DRIVER_CONTROL_PLANE_IMAGE=")
	e.restartOperator()
	e.eventually(soon, func() error {
		return e.hasImages(func(container string) bool {
			return container == "csi-driver-nfs" || strings.HasPrefix(container, "csi-liveness-probe")
		})
	})
	for image, wanted := range map[string]bool{
		"LIVENESS_PROBE": true, "NFS_DRIVER": e.subject.isManila(),
	} {
		if found := strings.Contains(e.log(), image+warning); found != wanted {
			e.t.Errorf("the log contains %s%s: %t, want %t", image, warning, found, wanted)
		}
	}
}

// hasImages returns nil if the images of the controllers are those of the control plane and all
// others those of the guest cluster, as are the containers of the controllers that except accepts.
func (e *hostedEnv) hasImages(except func(container string) bool) error {
	return e.eachContainer(func(w workload, c corev1.Container) error {
		registry := guestRegistry
		if w.Name == e.subject.Workloads[0] && !except(c.Name) {
			registry = controlPlaneRegistry
		}
		if !strings.HasPrefix(c.Image, registry) {
			return fmt.Errorf("the image is %s, want one of %s", c.Image, registry)
		}
		return nil
	})
}

// refusesWrongSettings checks that the process ends with one line that names the variables.
func (e *hostedEnv) refusesWrongSettings() {
	for _, c := range []struct{ remove, add, message string }{
		{remove: "PROVISIONER_IMAGE", message: "PROVISIONER_IMAGE is missing"},
		{remove: "DRIVER_", message: "DRIVER_CONTROL_PLANE_IMAGE or DRIVER_IMAGE is missing"},
		{
			remove:  "LIVENESS_PROBE_",
			message: "LIVENESS_PROBE_CONTROL_PLANE_IMAGE or LIVENESS_PROBE_IMAGE is missing",
		},
		{add: "PROVISIONER_IMAGE=a b", message: "PROVISIONER_IMAGE is not the name of an image"},
	} {
		environment := slices.DeleteFunc(e.operatorEnv(), func(v string) bool {
			return c.remove != "" && strings.HasPrefix(v, c.remove)
		})
		code, output := runProgram(e.t, e.subject.Program, installed, append(environment, c.add),
			e.operatorArgs()...)
		if lines := strings.Split(strings.TrimSpace(output), "\n"); code == 0 || len(lines) != 1 ||
			!strings.Contains(output, c.message) {
			e.t.Errorf("without %q and with %q the operator ended with code %d and the output\n%s\n"+
				"want one line with %q", c.remove, c.add, code, output, c.message)
		}
	}
	code, output := runProgram(e.t, e.subject.Program, installed, e.operatorEnv(),
		append(e.operatorArgs(), "--guest-kubeconfig="+e.configPath())...)
	if code == 0 || !strings.Contains(output, "--guest-kubeconfig") {
		e.t.Errorf("with an invalid kubeconfig the operator ended with code %d and the output\n%s", code,
			output)
	}
}

// usesProxyOfEachCluster checks that the guest cluster's proxy does not change the Deployment.
func (e *hostedEnv) usesProxyOfEachCluster() {
	e.awaitAvailable()
	e.must(e.hasProxies(nil))
	e.awaitNoWrites()
	before, err := e.deployment()
	e.must(err)
	guests := proxies("guest")
	e.setProxy(&configv1.ProxyStatus{
		HTTPProxy:  guests["HTTP_PROXY"],
		HTTPSProxy: guests["HTTPS_PROXY"], NoProxy: guests["NO_PROXY"],
	})
	e.within(prompt, func() error { return e.hasProxies(guests) })
	e.awaitAvailable()
	e.awaitNoWrites()
	after, err := e.deployment()
	e.must(err)
	e.must(checkEqual(before.Spec, after.Spec))
	e.setProxy(nil)
	e.within(prompt, func() error { return e.hasProxies(nil) })
}

// hasProxies returns nil if all containers of the Deployment have the operator's own proxy
// variables once, and csi-driver of the DaemonSets has these variables.
func (e *env) hasProxies(nodes map[string]string) error {
	return e.eachContainer(func(w workload, c corev1.Container) error {
		switch {
		case w.Name == e.subject.Workloads[0]:
			return hasVariables(c, proxies("management"))
		case c.Name == "csi-driver" && nodes != nil:
			return hasVariables(c, nodes)
		}
		return hasVariables(c, map[string]string{})
	})
}

// Annotations that report the progress of an upgrade to HyperShift.
const (
	desiredVersion = "release.openshift.io/desired-version"
	presentVersion = "release.openshift.io/version"
)

// hasVersions returns nil if the Deployment has these versions, or none if they are empty.
func (e *env) hasVersions(desired, present string) error {
	d, err := e.deployment()
	if err != nil {
		return err
	}
	got := [2]string{d.Annotations[desiredVersion], d.Annotations[presentVersion]}
	if want := [2]string{desired, present}; got != want {
		return fmt.Errorf("the versions are %q, want %q", got, want)
	}
	return nil
}

// setOperatorVersion changes the version annotation of the operator's own Deployment. "null"
// removes it.
func (e *env) setOperatorVersion(version string) {
	e.t.Helper()
	e.patchBesideController(resource("apps", "deployments"), e.subject.Name,
		`{"metadata":{"annotations":{"`+desiredVersion+`":`+version+`}}}`)
}

// reportsVersionAfterRollout checks an operator's Deployment without the annotation, and then a
// rollout that does not end.
func (e *hostedEnv) reportsVersionAfterRollout() {
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(e.hasVersions("", ""))
	e.setOperatorVersion(`"4.99.8"`)
	e.within(prompt, func() error { return e.hasVersions("4.99.8", "4.99.8") })
	e.awaitNoWrites()
	for _, name := range e.subject.Workloads[1:] { // only the controller's Deployment has versions
		node, err := e.daemonSet(name)
		e.must(err)
		if version, found := node.Annotations[desiredVersion]; found {
			e.t.Errorf("DaemonSet %s has version %s", name, version)
		}
	}
	e.patchControlPlane(`{"nodeSelector":{"no-such":"node"}}`)
	e.eventually(soon, e.isRollingOut)
	e.setOperatorVersion(`"4.99.9"`)
	e.eventually(prompt, func() error { return e.hasVersions("4.99.9", "4.99.8") })
	e.awaitNoWrites()
	e.must(e.hasVersions("4.99.9", "4.99.8"))
	e.patchControlPlane(`{"nodeSelector":null}`)
	e.eventually(soon, func() error { return e.hasVersions("4.99.9", "4.99.9") })
}

// prefersVersionOfVariable checks that the operator ignores the annotation of its own Deployment.
func (e *hostedEnv) prefersVersionOfVariable() {
	e.options.Env = append(e.options.Env, "OPERATOR_IMAGE_VERSION=4.99.7")
	e.restartOperator()
	e.eventually(installed, func() error { return e.hasVersions("4.99.7", "4.99.7") })
	e.awaitAvailable()
	e.setOperatorVersion(`"4.99.8"`)
	e.awaitNoWrites()
	e.must(e.hasVersions("4.99.7", "4.99.7"))
}

// isRollingOut returns nil while the Deployment waits for new pods.
func (e *env) isRollingOut() error {
	d, err := e.deployment()
	if err == nil && (d.Status.ObservedGeneration != d.Generation ||
		d.Status.UnavailableReplicas == 0) {
		err = fmt.Errorf("the Deployment has %d unavailable pods at generation %d of %d",
			d.Status.UnavailableReplicas, d.Status.ObservedGeneration, d.Generation)
	}
	return err
}
