//go:build integration

package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/golden"
)

// TestGoldenWorkloads compares the workloads with testdata/workloads/standalone. `make
// test-integration TAGS=integration,long TESTFLAGS='-run Golden -update'` writes the golden files.
// Review the difference.
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

// mustBeGolden compares how a workload differs from its asset in a folder with a golden file.
func (e *env) mustBeGolden(folder, name string) {
	e.t.Helper()
	at, in := e.guest, collection{resource("apps", "daemonsets"), e.subject.OperandNamespace}
	if name == e.subject.Workloads[0] {
		at, in = e.management, collection{resource("apps", "deployments"), e.subject.controllerNamespace}
	}
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"}
	asset, err := at.of(in).Create(e.ctx(), e.asset(folder, name), options) // sets the defaults
	e.must(err)
	asset.SetName(name)
	workload, err := at.of(in).Get(e.ctx(), name, metav1.GetOptions{})
	e.must(err)
	file := filepath.Join("testdata", "workloads", folder, name+".diff")
	golden.Match(e.t, file, differences("", normalised(asset), normalised(workload)))
}

// asset returns the asset of a workload under another name, after the patch in a folder beside its
// own. It replaces the placeholders that many
// fields contain.
func (e *env) asset(folder, name string) *unstructured.Unstructured {
	e.t.Helper()
	driver, file := e.subject.Driver, "node.yaml"
	var kind any = appsv1.DaemonSet{}
	switch name {
	case nfsNodeName:
		driver = "nfs"
	case e.subject.Workloads[0]:
		file, kind = "controller.yaml", appsv1.Deployment{}
	}
	generated := filepath.Join("../../assets/drivers", driver, "generated")
	text, err := os.ReadFile(filepath.Join(generated, string(e.flavour), file))
	e.must(err)
	if folder != string(e.flavour) {
		patch, err := os.ReadFile(filepath.Join(generated, folder, file))
		e.must(err)
		text, err = bundle.Patched(text, patch, kind)
		e.must(err)
	}
	values := map[string]string{
		"NAMESPACE": e.subject.controllerNamespace, "NODE_NAMESPACE": e.subject.OperandNamespace,
		"LOG_LEVEL": "2", "LEADER_ELECTION_LEASE_DURATION": "137s",
		"LEADER_ELECTION_RENEW_DEADLINE": "107s", "LEADER_ELECTION_RETRY_PERIOD": "26s",
		"TLS_MIN_VERSION": "VersionTLS12",
		"TLS_CIPHER_SUITES": "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384," +
			"TLS_CHACHA20_POLY1305_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256," +
			"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384," +
			"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256," +
			"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	}
	for _, variable := range e.operatorEnv() {
		if name, image, _ := strings.Cut(variable, "="); strings.HasSuffix(name, "_IMAGE") {
			values[name] = image
		}
	}
	filled := string(text)
	for placeholder, value := range values {
		filled = strings.ReplaceAll(filled, "${"+placeholder+"}", value)
	}
	var object unstructured.Unstructured
	e.must(yaml.UnmarshalStrict([]byte(filled), &object.Object))
	if object.GetName() != name {
		e.t.Errorf("the asset of %s is that of %s", name, object.GetName())
	}
	object.SetName("asset")
	return &object
}

// normalised returns the fields of a workload that do not differ between runs.
func normalised(workload *unstructured.Unstructured) map[string]any {
	metadata, _, _ := unstructured.NestedMap(workload.Object, "metadata")
	maps.DeleteFunc(metadata, func(key string, _ any) bool {
		return !slices.Contains([]string{"name", "namespace", "labels", "annotations"}, key)
	})
	spec, _, _ := unstructured.NestedMap(workload.Object, "spec")
	pod, _, _ := unstructured.NestedFieldNoCopy(spec, "template", "metadata", "annotations")
	normaliseAnnotations(metadata["annotations"])
	normaliseAnnotations(pod)
	return map[string]any{"metadata": metadata, "spec": spec}
}

// differences returns a line for each value that is only in before or only in after, with its
// path. It compares the elements of lists by position.
func differences(path string, before, after any) string {
	old, now := children(before), children(after)
	if reflect.TypeOf(before) != reflect.TypeOf(after) || old == nil {
		return changed(path, before, after)
	}
	var lines strings.Builder
	keys := maps.Clone(old)
	maps.Copy(keys, now)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		lines.WriteString(differences(path+key, old[key], now[key]))
	}
	return lines.String()
}

// children returns the parts of an object or a list by the path to them, and nil for other values.
func children(of any) map[string]any {
	switch of := of.(type) {
	case map[string]any:
		all := map[string]any{}
		for key, value := range of {
			all["."+key] = value
		}
		return all
	case []any:
		all := map[string]any{}
		for i, value := range of {
			key := strconv.Itoa(i)
			if object, ok := value.(map[string]any); ok && object["name"] != nil {
				key += fmt.Sprint(" ", object["name"])
			}
			all["["+key+"]"] = value
		}
		return all
	}
	return nil
}

// changed returns the lines of a value unless both are equal. An absent value is nil.
func changed(path string, before, after any) string {
	old, errOld := json.Marshal(before)
	now, errNow := json.Marshal(after)
	if err := cmp.Or(errOld, errNow); err != nil {
		return err.Error()
	}
	lines := ""
	if !bytes.Equal(old, now) && before != nil {
		lines = fmt.Sprintf("- %s: %s\n", path, old)
	}
	if !bytes.Equal(old, now) && after != nil {
		lines += fmt.Sprintf("+ %s: %s\n", path, now)
	}
	return lines
}

// normaliseAnnotations replaces hashes and counters. Another annotation lists the hashed inputs.
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
