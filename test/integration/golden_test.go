//go:build integration

package integration

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// `make test-integration TAGS=integration,long TESTFLAGS='-run Golden -update'` updates the golden
// files. Review the difference.
var update = flag.Bool("update", false, "write the workloads as they are to testdata/workloads")

// TestGoldenWorkloads compares the workloads with testdata/workloads/standalone.
func TestGoldenWorkloads(t *testing.T) {
	t.Parallel()
	eachGolden(t, options{})
}

// TestHyperShiftGoldenWorkloads compares the workloads with testdata/workloads/hypershift. They
// contain the labels on which the control plane's network policies depend.
func TestHyperShiftGoldenWorkloads(t *testing.T) {
	t.Parallel()
	eachGolden(t, options{
		Flavour: flavour.HyperShift,
		Env: []string{
			"HTTP_PROXY=http://management:3128", "HTTPS_PROXY=http://management:3129",
			"NO_PROXY=.svc,127.0.0.1", "RUN_AS_USER=1001",
			"DRIVER_CONTROL_PLANE_IMAGE=csi-driver:control-plane",
			"LIVENESS_PROBE_CONTROL_PLANE_IMAGE=csi-livenessprobe:control-plane",
			"NFS_DRIVER_CONTROL_PLANE_IMAGE=csi-driver-nfs:control-plane",
		},
		Before: func(e *env) {
			e.patchControlPlane(`{"controllerAvailabilityPolicy":"HighlyAvailable",` +
				`"labels":{"team":"storage"},"nodeSelector":{"kubernetes.io/os":"linux"},` +
				`"tolerations":[{"key":"dedicated","operator":"Exists"}]}`)
		},
	})
}

// eachGolden compares the workloads of each operator when every hook has changed them, and checks
// what their pods may do. The CRD of CSI-Addons arrives later, without the tag long only at Cinder.
func eachGolden(t *testing.T, o options) {
	t.Helper()
	o.Env = append(o.Env, addonsImages()...)
	for _, s := range subjects() {
		t.Run(s.Program, func(t *testing.T) {
			t.Parallel()
			o := o
			o.Subject = s
			e := newEnv(t, o)
			e.parts(part{"ChangesWorkloads", e.mustHaveGoldenWorkloads})
			if long || !s.isManila() && !e.isHosted() {
				e.parts(part{"FollowsCRDOfCSIAddons", e.followsAddonsCRD})
			}
		})
	}
}

func (e *env) mustHaveGoldenWorkloads() {
	e.setProxy(&configv1.ProxyStatus{
		HTTPProxy:  "http://cluster:3128",
		HTTPSProxy: "http://cluster:3129", NoProxy: ".cluster.local",
	})
	e.must(e.management.putSecret(e.ctx(), e.subject.controllerNamespace, e.subject.certificate,
		map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("y")}))
	e.awaitAvailable()
	for _, at := range e.driverNamespaces() {
		e.must(at.cluster.patch(e.ctx(), collection{configMaps(), at.namespace}, e.subject.trustedCA,
			fmt.Sprintf(`{"data":{%q:"a bundle"}}`, trustedCAKey)))
	}
	e.eventually(prompt, e.allMountTrustedCA)
	e.awaitAvailable()
	e.awaitNoWrites()
	for _, name := range e.subject.Workloads {
		e.mustBeGolden(string(e.flavour), name)
	}
	e.mustBeRestricted()
	e.mustHaveOnlyNeededPermissions()
}

// mustBeGolden compares a workload with its golden file in a folder.
func (e *env) mustBeGolden(folder, name string) {
	e.t.Helper()
	var workload any
	var err error
	if name == e.subject.Workloads[0] {
		workload, err = e.deployment()
	} else {
		workload, err = e.daemonSet(name)
	}
	e.must(err)
	got, err := normalised(workload)
	e.must(err)
	path := filepath.Join("testdata", "workloads", folder, name+".yaml")
	if *update {
		e.must(os.MkdirAll(filepath.Dir(path), 0o755))
		e.must(os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	e.must(err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		e.t.Errorf("%s differs from %s (-want +got):\n%s", name, path, diff)
	}
}

// normalised returns a workload as YAML, without the fields that differ between runs.
func normalised(workload any) ([]byte, error) {
	text, err := json.Marshal(workload)
	if err != nil {
		return nil, err
	}
	var object struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	maps.DeleteFunc(object.Metadata, func(key string, _ any) bool {
		return !slices.Contains([]string{"name", "namespace", "labels", "annotations"}, key)
	})
	template, _, err := unstructured.NestedFieldNoCopy(object.Spec, "template", "metadata")
	if err != nil {
		return nil, err
	}
	for _, metadata := range []any{object.Metadata, template} {
		if fields, ok := metadata.(map[string]any); ok {
			delete(fields, "creationTimestamp")
			normaliseAnnotations(fields["annotations"])
		}
	}
	return yaml.Marshal(object)
}

// normaliseAnnotations replaces hashes and counters. Another annotation lists the inputs of the
// hashes.
func normaliseAnnotations(of any) {
	annotations, ok := of.(map[string]any)
	if !ok {
		return
	}
	hashes := 0
	for key, value := range annotations {
		switch {
		case strings.HasPrefix(key, dependencyPrefix):
			hashes++
			delete(annotations, key)
		case key == inputsAnnotation:
			annotations[key] = withoutHashes(fmt.Sprint(value))
		case key == "operator.openshift.io/spec-hash":
			annotations[key] = "(hash)"
		case strings.HasSuffix(key, "generation"), strings.HasSuffix(key, "/revision"):
			annotations[key] = "(number)"
		}
	}
	if hashes > 0 {
		annotations[dependencyPrefix+"..."] = fmt.Sprintf("(%d hashes)", hashes)
	}
}

// withoutHashes replaces the hashes in kind/name=hash,... and keeps "absent".
func withoutHashes(inputs string) string {
	all := strings.Split(inputs, ",")
	for i, input := range all {
		if name, hash, _ := strings.Cut(input, "="); hash != "absent" {
			all[i] = name + "=(hash)"
		}
	}
	return strings.Join(all, ",")
}

// restrictedNamespace admits only pods of the Pod Security level "restricted".
const restrictedNamespace = "restricted"

// mustBeRestricted fails the test if the API server refuses a pod of the Deployment in a namespace
// that enforces the level "restricted". The devcluster has no SCCs that could change the pod.
func (e *env) mustBeRestricted() {
	e.t.Helper()
	deployment, err := e.deployment()
	e.must(err)
	spec := deployment.Spec.Template.Spec.DeepCopy()
	spec.PriorityClassName = "" // HyperShift creates some classes, which do not exist here
	core := e.management.kube.CoreV1()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   restrictedNamespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	_, err = core.Namespaces().Create(e.ctx(), namespace, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		e.must(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: spec.ServiceAccountName}}
	_, err = core.ServiceAccounts(restrictedNamespace).Create(e.ctx(), account, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		e.must(err)
	}
	pods := core.Pods(restrictedNamespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: deployment.Name}, Spec: *spec}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := pods.Create(e.ctx(), pod, dryRun); err != nil {
		e.t.Errorf("level restricted does not admit a pod of %s: %v", deployment.Name, err)
	}
	pod.Spec.SecurityContext = nil
	if _, err := pods.Create(e.ctx(), pod, dryRun); !apierrors.IsForbidden(err) {
		e.t.Errorf("the level is not enforced: a pod without security context is admitted (%v)", err)
	}
}
