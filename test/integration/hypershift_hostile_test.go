//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	opv1 "github.com/openshift/api/operator/v1"
)

// injected is YAML that ends a quoted argument, adds fields to a container, and contains control
// characters.
const injected = "x\"\n        command: [\"/bin/sh\", \"-c\", \"id\"]\n" +
	"        env: [{name: A, valueFrom: {secretKeyRef: {name: pull-secret, key: a}}}]\n" +
	"        a: \"\x1b[2J"

func megabyte() string { return strings.Repeat("x", 1<<20) }

// hostileWrite is a change that a malicious administrator makes to an object of the guest cluster.
type hostileWrite struct {
	resource schema.GroupVersionResource
	object   string
	// status sends the patch to the status subresource.
	status bool
	// patch is merged into the object.
	patch map[string]any
	// field must be in the message of a condition. If it is empty, the operator must repair the object
	// or ignore the change.
	field string
}

func nested(value any, path ...string) map[string]any {
	for i := len(path) - 1; i > 0; i-- {
		value = map[string]any{path[i]: value}
	}
	return map[string]any{path[0]: value}
}

// hostileWrites returns changes of all fields of the guest cluster that the operator reads, with
// invalid values. Without the tag long it leaves out further values of the same fields.
func hostileWrites(driver string) map[string]hostileWrite {
	all := hostileConfig()
	maps.Copy(all, hostileDriver(driver))
	further := []string{"JSON", "placeholder", "megabyte", "number", "object"}
	maps.DeleteFunc(all, func(name string, _ hostileWrite) bool {
		return !long && slices.Contains(further, name[strings.LastIndex(name, " ")+1:])
	})
	return all
}

// hostileConfig returns the changes of the objects that describe the guest cluster.
func hostileConfig() map[string]hostileWrite {
	const tls = "spec.tlsSecurityProfile."
	all := map[string]hostileWrite{}
	add := func(name, resource, field string, value any) {
		patch := nested(value, strings.Split(field, ".")...)
		if strings.HasPrefix(field, tls+"custom.") {
			patch["spec"].(map[string]any)["tlsSecurityProfile"].(map[string]any)["type"] = "Custom"
		}
		all[name] = hostileWrite{
			configResource(resource), "cluster", strings.HasPrefix(field, "status"), patch, field,
		}
	}
	for name, value := range invalidNames() {
		add("cluster ID "+name, "infrastructures", "status.infrastructureName", value)
		add("TLS version "+name, "apiservers", tls+"custom.minTLSVersion", value)
	}
	for name, value := range map[string]any{
		"YAML": injected, "megabyte": "http://" + megabyte(), "number": 5,
	} {
		for _, field := range []string{"httpProxy", "httpsProxy", "noProxy"} {
			add(field+" "+name, "proxies", "status."+field, value)
		}
	}
	add("TLS profile", "apiservers", tls+"type", injected)
	add("ciphers of another type", "apiservers", tls+"custom.ciphers", injected)
	add("many ciphers", "apiservers", tls+"custom.ciphers",
		strings.Split(strings.Repeat("AES128-SHA ", 5000), " "))
	add("topology", "infrastructures", "status.controlPlaneTopology", injected)
	other := func(name, resource, path string, value any, field string) {
		add(name, resource, path, value)
		write := all[name]
		write.field = field
		all[name] = write
	}
	other("status of another type", "infrastructures", "status", "x", "field status of")
	other("unknown ciphers", "apiservers", tls+"custom.ciphers", []any{injected, megabyte()}, "")
	return all
}

// invalidNames returns invalid values of a field that contains a short text.
func invalidNames() map[string]any {
	return map[string]any{
		"YAML": injected, "JSON": `{"a": ["b"]}`, "placeholder": "${TLS_MIN_VERSION}",
		"megabyte": megabyte(), "number": 5,
	}
}

// hostileDriver returns the changes of the ClusterCSIDriver.
func hostileDriver(driver string) map[string]hostileWrite {
	all := map[string]hostileWrite{}
	add := func(name, field string, value any, path ...string) {
		all[name] = hostileWrite{clusterCSIDrivers(), driver, false, nested(value, path...), field}
	}
	observed := []string{"spec", "observedConfig"}
	of := func(path ...string) []string {
		return slices.Concat(observed, []string{"targetcsiconfig"}, path)
	}
	for name, value := range invalidNames() {
		add("observed TLS version "+name, "", value, of("servingInfo", "minTLSVersion")...)
	}
	for name, value := range map[string]any{"YAML": injected, "object": map[string]any{"a": "b"}} {
		add("observed cipher "+name, "", []any{value}, of("servingInfo", "cipherSuites")...)
		add("log level "+name, "spec.logLevel", value, "spec", "logLevel")
	}
	add("log level of the operator", "", injected, "spec", "operatorLogLevel")
	add("log level of another type", "operatorLogLevel", 5, "spec", "operatorLogLevel")
	add("no observed configuration", "", nil, observed...)
	add("observed variables", "", "/tmp/evil.so", of("proxy", "LD_PRELOAD")...)
	add("observed list", "", []any{injected}, observed...)
	add("spec of another type", "field spec of", "x", "spec")
	add("management state", "managementState", injected, "spec", "managementState")
	add("classes", "spec.storageClassState", injected, "spec", "storageClassState")
	return all
}

// controlPlaneObjects returns the objects in the namespace of the hosted control plane as JSON, and
// the holder of the Lease.
func (e *env) controlPlaneObjects() map[string]string {
	e.t.Helper()
	all, err := e.management.store.Objects(e.ctx())
	e.must(err)
	content := map[string]string{}
	for key, object := range all {
		resource, _, _ := strings.Cut(key, "/")
		if !strings.Contains(key, "/"+hostedNamespace+"/") ||
			slices.Contains([]string{"events", "pods", "replicasets"}, resource) {
			continue
		}
		fields, err := fieldsOf(object)
		e.must(err)
		delete(fields, "status")
		unstructured.RemoveNestedField(fields, "metadata", "managedFields")
		shown := any(fields)
		if resource == "leases" {
			spec, _ := fields["spec"].(map[string]any)
			shown = []any{spec["holderIdentity"], spec["leaseTransitions"]}
		}
		text, err := json.MarshalIndent(shown, "", " ")
		e.must(err)
		content[key] = string(text)
	}
	return content
}

// relaxSchema makes a CRD of the guest cluster accept any value in fields, as users can.
func (e *env) relaxSchema(crd string, fields ...string) {
	e.t.Helper()
	original, err := e.guest.dynamic.Resource(crds()).Get(e.ctx(), crd, metav1.GetOptions{})
	e.must(err)
	changed := original.DeepCopy()
	versions, _ := changed.Object["spec"].(map[string]any)["versions"].([]any)
	for _, version := range versions {
		root := version.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		delete(root, "x-kubernetes-validations")
		delete(root, "required")
		for _, field := range fields {
			properties, _ := root["properties"].(map[string]any)
			properties[field] = map[string]any{"x-kubernetes-preserve-unknown-fields": true}
		}
	}
	_, err = e.guest.dynamic.Resource(crds()).Update(e.ctx(), changed, metav1.UpdateOptions{})
	e.must(err)
	e.afterwards(func(ctx context.Context) error {
		current, err := e.guest.dynamic.Resource(crds()).Get(ctx, crd, metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Object["spec"] = original.Object["spec"]
		_, err = e.guest.dynamic.Resource(crds()).Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

// merge merges the patch into the object. It retries until the API server uses the relaxed schema.
func (e *env) merge(a hostileWrite) {
	e.t.Helper()
	text, err := json.Marshal(a.patch)
	e.must(err)
	var subresources []string
	if a.status {
		subresources = []string{"status"}
	}
	e.eventually(soon, func() error {
		return e.guest.patch(e.ctx(), collection{a.resource, ""}, a.object, string(text), subresources...)
	})
}

// undo restores the object's spec or status. The operator restores the status of a
// ClusterCSIDriver.
func (e *env) undo(a hostileWrite, first map[string]any) {
	e.t.Helper()
	part, subresources := "spec", []string{}
	if a.status {
		part, subresources = "status", []string{"status"}
	}
	text, err := json.Marshal([]any{map[string]any{
		"op": "add", "path": "/" + part,
		"value": first[part],
	}})
	e.must(err)
	_, err = e.guest.dynamic.Resource(a.resource).
		Patch(e.ctx(), a.object, types.JSONPatchType, text, metav1.PatchOptions{},
			subresources...)
	e.must(err)
}

// mustReact waits until the operator has repaired or ignored the object, or until a condition names
// the field. Then it restores the object.
func (e *env) mustReact(
	a hostileWrite, first map[schema.GroupVersionResource]map[string]any,
	unchanged func(string), name string,
) {
	e.t.Helper()
	defer e.undo(a, first[a.resource])
	if a.field == "" {
		e.awaitReconcile()
		good := first[clusterCSIDrivers()]["spec"].(map[string]any)["observedConfig"]
		e.eventually(relisted, func() error { return e.observedIs(good) })
		return
	}
	e.eventually(relisted, func() error { return e.conditionNames(a.field) })
	unchanged(name)
}

// conditionNames returns nil if a condition names the field and all messages are printable. It
// decodes no types, because the spec may be invalid.
func (e *env) conditionNames(field string) error {
	object, err := e.guest.dynamic.Resource(clusterCSIDrivers()).
		Get(e.ctx(), e.subject.ClusterCSIDriver, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return err
	}
	found := false
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		message, _ := condition["message"].(string)
		if condition["type"] == planted {
			continue
		}
		if len(message) > 5000 ||
			strings.ContainsFunc(message, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
			return fmt.Errorf("the message of %s is too long or not printable: %d bytes, %.200q",
				condition["type"], len(message), message)
		}
		found = found || strings.Contains(message, field)
	}
	if !found {
		return fmt.Errorf("no condition names %q", field)
	}
	return nil
}

// observedIs returns nil if the operator has repaired the observed configuration.
func (e *env) observedIs(want any) error {
	object, err := e.guest.dynamic.Resource(clusterCSIDrivers()).
		Get(e.ctx(), e.subject.ClusterCSIDriver, metav1.GetOptions{})
	if err != nil {
		return err
	}
	spec, _ := object.Object["spec"].(map[string]any)
	if diff := cmp.Diff(want, spec["observedConfig"]); diff != "" {
		return fmt.Errorf("the observed configuration differs (-want +got):\n%.2000s", diff)
	}
	return nil
}

// awaitReconcile deletes an object and waits until the operator has created it again.
func (e *env) awaitReconcile() {
	e.t.Helper()
	drivers := e.guest.kube.StorageV1().CSIDrivers()
	e.must(drivers.Delete(e.ctx(), e.subject.ClusterCSIDriver, metav1.DeleteOptions{}))
	e.eventually(relisted, func() error {
		_, err := drivers.Get(e.ctx(), e.subject.ClusterCSIDriver, metav1.GetOptions{})
		return err
	})
}

const planted = "Planted"

// relisted bounds what the operator does after an object that it cannot decode: then the reflector
// of client-go waits for up to a minute.
const relisted = time.Minute + soon

// TestHyperShiftGuestCannotChangeManagementCluster checks that invalid and malicious objects of the
// guest cluster change no object of the management cluster, that a condition names invalid fields,
// and that the operator does not crash.
func TestHyperShiftGuestCannotChangeManagementCluster(t *testing.T) {
	t.Parallel()
	eachHosted(t, options{Subject: cinder()}, func(t *testing.T, e *hostedEnv) {
		e.awaitAvailable()
		for _, crd := range []string{"infrastructures", "apiservers", "proxies"} {
			e.relaxSchema(crd+".config.openshift.io", "spec", "status")
		}
		e.relaxSchema("clustercsidrivers.operator.openshift.io", "spec")
		e.awaitNoWrites()
		operator, before := e.operator, e.controlPlaneObjects()
		unchanged := func(what string) {
			t.Helper()
			if diff := cmp.Diff(before, e.controlPlaneObjects()); diff != "" {
				t.Errorf("%s changed the management cluster (-before +after):\n%.4000s", what, diff)
			}
			assert.Assert(t, e.operator == operator && operator.Running(), "%s ended the operator", what)
		}
		first := map[schema.GroupVersionResource]map[string]any{}
		for _, a := range hostileWrites(e.subject.ClusterCSIDriver) {
			if first[a.resource] == nil {
				object, err := e.guest.dynamic.Resource(a.resource).Get(e.ctx(), a.object, metav1.GetOptions{})
				e.must(err)
				first[a.resource] = object.Object
			}
		}
		for name, a := range hostileWrites(e.subject.ClusterCSIDriver) {
			e.sub(name, func(*testing.T) {
				e.merge(a)
				e.mustReact(a, first, unchanged, name)
				e.eventually(relisted, e.notDegraded)
				unchanged(name)
			})
		}
		e.plantObjects()
		e.awaitReconcile()
		unchanged("what was planted")

		// A valid change is still applied and reverted.
		level := func(l opv1.LogLevel) hostileWrite {
			return hostileWrite{
				clusterCSIDrivers(), e.subject.ClusterCSIDriver, false,
				nested(string(l), "spec", "logLevel"), "",
			}
		}
		e.merge(level(opv1.Debug))
		e.eventually(installed, func() error { return e.hasDeploymentVerbosity("4") })
		e.merge(level(opv1.Normal))
		e.eventually(installed, func() error { return e.hasDeploymentVerbosity("2") })
		assert.Assert(t, e.operator == operator && operator.Running(), "the operator ended")
	})
}

// hasDeploymentVerbosity returns nil if the containers of the Deployment have the verbosity.
func (e *env) hasDeploymentVerbosity(verbosity string) error {
	w, err := e.workload(e.subject.Workloads[0])
	if err != nil {
		return err
	}
	for _, c := range w.containers() {
		if got, found := argument(c, "v"); found && got != verbosity {
			return fmt.Errorf("container %s has --v=%s, want %s", c.Name, got, verbosity)
		}
	}
	return nil
}

// plantObjects creates large and malicious objects of all kinds that the operator reads.
func (e *env) plantObjects() {
	e.t.Helper()
	text := injected + megabyte()[:1000<<10] // ConfigMaps and Secrets have at most 1 MiB
	for i := range 5 {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name:        fmt.Sprintf("planted-%d", i),
				Annotations: map[string]string{"a": text[:200<<10]},
			},
			Provisioner:  e.subject.ClusterCSIDriver,
			Parameters:   map[string]string{"type": injected, "os-authURL": "http://169.254.169.254/"},
			MountOptions: []string{text},
		}
		e.createClass(class)
	}
	for name, key := range map[string]string{
		"planted": "a", e.subject.trustedCA: "ca-bundle.crt", "cloud-conf": "cloud.conf",
		"cloud-provider-config": "cloud.conf", "cinder-csi-config": "cloud.conf",
		hostedCloudCA: "ca-bundle.pem",
	} {
		e.putConfigMap(e.subject.OperandNamespace, name,
			map[string]string{key: text, "enable_topology": injected})
	}
	const clouds = "clouds: {openstack: {auth: {auth_url: 'http://169.254.169.254/', username: u, " +
		"password: p, project_name: p}, cacert: /etc/passwd, verify: false}}"
	for _, c := range e.subject.Credentials {
		e.putSecret(c.Namespace, c.Name,
			map[string][]byte{"clouds.yaml": []byte(clouds), "cacert": []byte(text)})
	}
	e.putSecret(e.subject.OperandNamespace, loginSecret,
		map[string][]byte{"os-authURL": []byte(text)})
	e.putSecret(e.subject.OperandNamespace, e.subject.certificate,
		map[string][]byte{"tls.crt": []byte(text)})
	status := map[string]any{"status": map[string]any{
		"generations": []any{map[string]any{
			"group": "apps", "resource": "deployments", "namespace": hostedNamespace,
			"name": e.subject.Workloads[0], "lastGeneration": 1 << 40, "hash": injected,
		}},
		"conditions": []any{map[string]any{
			"type": planted, "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z",
			"reason": "Planted", "message": text[:300<<10],
		}},
	}}
	patch, err := json.Marshal(status)
	e.must(err)
	e.patch(clusterCSIDrivers(), "", e.subject.ClusterCSIDriver, string(patch), "status")
}
