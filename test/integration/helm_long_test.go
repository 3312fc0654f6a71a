//go:build integration && long && helm

package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// chart are the arguments of each rendering.
const chart = repository + "/assets/helm/generated/openstack-csi --kube-version=1.36.0 " +
	"--namespace=openstack-csi --set=images.registry=" + noRegistry

// noRegistry is the registry of the images that have none in manifests.
const noRegistry = "registry.test"

// helms returns both majors of Helm, by name.
func helms() map[string]string {
	return map[string]string{
		"helm3": filepath.Join(shared.Bin, "tools", "helm3"),
		"helm4": filepath.Join(shared.Bin, "tools", "helm4"),
	}
}

// TestHelmChartEqualsKustomizations compares what the chart installs with what kubectl does.
func TestHelmChartEqualsKustomizations(t *testing.T) {
	t.Parallel()
	driver := func(name string) string {
		return "drivers/" + name + "/generated/kubernetes/operator"
	}
	for _, test := range []struct {
		values  string
		folders []string
	}{
		{"manila.enabled=true", []string{driver("manila")}},
		{"cinder.enabled=true", []string{driver("cinder")}},
		{"manila.enabled=true,cinder.enabled=true", []string{driver("manila"), driver("cinder")}},
		{
			"cinder.enabled=true,csiAddons.enabled=true,cinder.env.CSI_ADDONS_SIDECAR_IMAGE=," +
				"cinder.env.CSI_ADDONS_DRIVER_IMAGE=",
			[]string{driver("cinder"), "csi-addons/crd", "csi-addons/install/kubernetes"},
		},
		{
			"manila.enabled=true,snapshotController.enabled=true,monitoring.enabled=true",
			[]string{driver("manila"), "snapshots", "monitoring/kubernetes"},
		},
	} {
		want := map[string]*unstructured.Unstructured{}
		for _, folder := range test.folders {
			maps.Copy(want, rendered(t, filepath.Join(shared.Kubernetes, "kubectl")+" kustomize "+
				filepath.Join(repository, "assets", folder)))
		}
		for name, helm := range helms() {
			got := rendered(t, helm+" template "+chart+" --set="+test.values)
			assert.Check(t, is.DeepEqual(want, got), "%s with %s", name, test.values)
		}
	}
}

// rendered returns the objects that a command prints, without what only Helm needs.
func rendered(t *testing.T, command string) map[string]*unstructured.Unstructured {
	t.Helper()
	output, err := guide.Output(t.Context(), command)
	assert.NilError(t, err)
	objects := map[string]*unstructured.Unstructured{}
	all, err := decoded(strings.ReplaceAll(output, noRegistry+"/", ""))
	assert.NilError(t, err)
	for _, object := range all {
		annotations := object.GetAnnotations()
		if delete(annotations, "helm.sh/resource-policy"); len(annotations) == 0 {
			annotations = nil
		}
		object.SetAnnotations(annotations)
		objects[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = object
	}
	return objects
}

// manilaDriver is the name of the driver of Manila.
const manilaDriver = "nfs.manila.csi.openstack.org"

func TestHelmRefusesBadValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"manila.enable=true":                   "at '/manila': additional properties 'enable'",
		"manila.spec.kubletDir=/x":             "at '/manila/spec': additional properties",
		"cinder.spec.blockStorage.rescan=true": "at '/cinder/spec/blockStorage': additional properties",
		"cinder.spec.class.reclaimPolicy=Keep": "at '/cinder/spec/class/reclaimPolicy': value must",
		"pods.node.nodeSelector.zone=1":        "at '/pods/node/nodeSelector/zone': got number",
		"images.digests.csi-addons=v1":         "at '/images/digests/csi-addons': 'v1' does not match",
		"credentials.clouds=[Global]":          "credentials.clouds is no clouds.yaml",
		"credentials.clouds=clouds.yaml":       "--set-file=credentials.clouds=clouds.yaml",
		"credentials.cacert=x":                 "only with credentials.clouds",
		"credentials.secret=My_Secret":         "at '/credentials/secret': 'My_Secret' does not match",
		"manila.enabled=false":                 "enable a driver",
		"manila.spec.logLevel=Loud":            "at '/manila/spec/logLevel': value must be one of",
		"images.registry=":                     "a clone names no registry",
		"images.registry=https://a.io":         "at '/images/registry': 'https://a.io' does not match",
		"images.mirror=a.io/":                  "at '/images/mirror': 'a.io/' does not match",
		"manila.resources.limit.cpu=1":         "at '/manila/resources': additional properties 'limit'",
		"manila.resources.limits.memory=64Mb":  "at '/manila/resources/limits/memory': '64Mb'",
		"manila.resources.limits.memory=128m":  "at '/manila/resources/limits/memory': '128m'",
		"images.mirror=[fd00::5]:x/a":          "at '/images/mirror'",
		"enabled=false":                        "at '/enabled': value must be true",
		"manila.secrets={mine}":                "at '/manila/secrets/0': 'mine' does not match pattern",
		"manila.env.DRIVER=mine":               "at '/manila/env': additional properties 'DRIVER'",
		"kubeletDir=/x/":                       "at '/kubeletDir': '/x/' does not match pattern",
		"pods.node.nodeSelector.a b=c":         "invalid propertyName 'a b'",
	} {
		for name, helm := range helms() {
			output, err := guide.Output(t.Context(), helm+" template "+chart+
				" --set=manila.enabled=true --set='"+value+"'")
			assert.Check(t, err != nil && strings.Contains(output, want),
				"%s with %s: the output is\n%swant %s", name, value, output, want)
		}
	}
}

// A value has another name in a chart that contains this one, also under another name.
func TestHelmNamesValuesOfADependency(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	assert.NilError(t, os.WriteFile(parent+"/Chart.yaml", []byte("apiVersion: v2\nname: platform\n"+
		"version: 1.0.0\ndependencies: [{name: openstack-csi, alias: storage, version: '*', "+
		"repository: file://x}]\n"), 0o600))
	own := os.DirFS(repository + "/assets/helm/generated/openstack-csi")
	assert.NilError(t, os.CopyFS(parent+"/charts/openstack-csi", own))
	for name, helm := range helms() {
		output, err := guide.Output(t.Context(), helm+" template "+parent)
		assert.Check(t, err != nil && strings.Contains(output, "--set storage.manila.enabled=true"),
			"%s: %s", name, output)
	}
}

// Each value changes the objects for which docs/helm.md describes it.
func TestHelmValuesChangeObjects(t *testing.T) {
	t.Parallel()
	for _, test := range changes() {
		for name, helm := range helms() {
			object := rendered(t, helm+" template "+chart+" --set='"+
				"manila.enabled=true,cinder.enabled=true,csiAddons.enabled=true,"+test.value+"'")[test.object]
			text, err := json.Marshal(object)
			assert.Check(t, err == nil && strings.Contains(string(text), test.want),
				"%s with %s: %s is %s, want %s", name, test.value, test.object, text, test.want)
		}
	}
}

// changes returns values, an object that each changes, and a part of the changed object.
func changes() []struct{ value, object, want string } {
	const operator = "Deployment openstack-csi/manila-csi-driver-operator"
	digest := "sha256:" + strings.Repeat("0", 64)
	return []struct{ value, object, want string }{
		{"images.registry=a.io,images.tag=v1", operator, `"a.io/manila-csi-driver-operator:v1"`},
		{
			"images.registry=a.io/b,images.mirror=c.io:5/d", operator,
			`"image":"c.io:5/d/b/manila-csi-driver-operator"`,
		},
		{"images.mirror=c.io", operator, `"c.io/sig-storage/csi-resizer:`},
		{"global.imageRegistry=c.io", operator, `"c.io/sig-storage/csi-resizer:`},
		{"global.imageRegistry=a.io,images.mirror=c.io", operator, `"c.io/sig-storage/csi-resizer:`},
		{"enabled=true,images.mirror=[fd00::5]:5000/m", operator, `"[fd00::5]:5000/m/`},
		{"manila.image=[fd00::5]:5000/m/mine:1", operator, `"image":"[fd00::5]:5000/m/mine:1"`},
		{"images.mirror=c.io,manila.env.RESIZER_IMAGE=mine", operator, `"value":"mine"`},
		{"images.digests.csi-addons=" + digest, operator, `"value":"csi-addons@` + digest + `"`},
		{
			"global.imagePullSecrets[0].name=a,global.imagePullSecrets[1]=b", operator,
			`"imagePullSecrets":[{"name":"a"},{"name":"b"}]`,
		},
		{"images.pullSecrets={login}", operator, `"imagePullSecrets":[{"name":"login"}]`},
		{
			"images.pullSecrets={login},manila.spec.pods.controller.imagePullSecrets[0].name=mine",
			"ManilaDriver /" + manilaDriver, `"pods":{"controller":{"imagePullSecrets":[{"name":` +
				`"mine"}]},"node":{"imagePullSecrets":[{"name":"login"}]}}`,
		},
		{
			"pods.controller.nodeSelector.a=b,pods.controller.replicas=2," +
				"pods.node.tolerations[0].key=a,pods.node.tolerations[1].key=b," +
				"manila.spec.pods.controller.replicas=1,manila.spec.pods.node.tolerations[0].key=c",
			"ManilaDriver /" + manilaDriver, `"pods":{"controller":{"nodeSelector":{"a":"b"},` +
				`"replicas":1},"node":{"tolerations":[{"key":"c"}]}}`,
		},
		{
			"pods.controller.hostAliases[0].ip=192.0.2.1", operator,
			`"hostAliases":[{"ip":"192.0.2.1"}]`,
		},
		{
			"pods.controller.hostAliases[0].ip=192.0.2.1,manila.spec.pods.controller.hostAliases[0].ip=" +
				"192.0.2.2", operator, `"hostAliases":[{"ip":"192.0.2.2"}]`,
		},
		{"manila.image=mine", operator, `"image":"mine"`},
		{"manila.replicas=0", operator, `"replicas":0`},
		{"manila.resources.limits.cpu=2", operator, `"resources":{"limits":{"cpu":2}}`},
		{"manila.env.DRIVER_IMAGE=mine", operator, `{"name":"DRIVER_IMAGE","value":"mine"}`},
		{`proxy.http=http://a$b`, operator, `{"name":"HTTP_PROXY","value":"http://a$$b"}`},
		{
			"monitoring.labels.release=mine", operator,
			`{"name":"SERVICE_MONITOR_LABELS","value":"release=mine"}`,
		},
		{
			"monitoring.enabled=true,monitoring.labels.release=mine",
			"PrometheusRule openstack-csi/openstack-csi", `"release":"mine"`,
		},
		{
			"proxy.https=http://a,proxy.no=b", operator, `{"name":"NO_PROXY","value":` +
				`"$(KUBERNETES_SERVICE_HOST),169.254.169.254,.svc,b"}`,
		},
		{"proxy.no=.svc", operator, `{"name":"NO_PROXY","value":".svc"}`},
		{
			"manila.spec.managementState=Unmanaged,manila.spec.storageClassState=Removed",
			"ManilaDriver /" + manilaDriver,
			`"spec":{"managementState":"Unmanaged","storageClassState":"Removed"}`,
		},
		{"manila.credentialsSecret=mine", operator, `"--credentials-secret=mine"`},
		{
			"manila.credentialsSecret=mine", "Role openstack-csi/manila-csi-driver-operator-operands",
			`"resourceNames":["mine"]`,
		},
		{
			"manila.secrets={shop/mine}", "Role shop/manila-csi-driver-reads-mine",
			`"resourceNames":["mine"]`,
		},
		{
			"manila.secrets={shop/mine}", "RoleBinding shop/manila-csi-driver-reads-mine",
			`"name":"manila-csi-driver-controller-sa","namespace":"openstack-csi"`,
		},
		{
			"clusterID=mine", "ManilaDriver /" + manilaDriver,
			`"spec":{"clusterID":"mine","managementState":"Managed"}`,
		},
		{
			"csiAddons.replicas=1", "Deployment csi-addons-system/csi-addons-controller-manager",
			`"replicas":1`,
		},
		{
			"kubeletDir=/a,manila.spec.kubeletDir=/b", "ManilaDriver /" + manilaDriver,
			`"spec":{"kubeletDir":"/b","managementState":"Managed"}`,
		},
		{
			"kubeletDir=/a,cinder.spec.topology=Disabled", "CinderDriver /cinder.csi.openstack.org",
			`"spec":{"kubeletDir":"/a","managementState":"Managed","topology":"Disabled"}`,
		},
		{
			`credentials.clouds=clouds: {a: 1},credentials.cacert=-BEGIN CERTIFICATE-`,
			"Secret openstack-csi/openstack-credentials",
			`"data":{"cacert":"LUJFR0lOIENFUlRJRklDQVRFLQ==","clouds.yaml":"Y2xvdWRzOiB7YTogMX0="}`,
		},
	}
}

// TestHelm3 and TestHelm4 run the commands of docs/helm.md.
func TestHelm3(t *testing.T) {
	t.Parallel()
	installsWithHelm(t, "helm3", "Install with your own Secret", func(h *helmCluster) {
		h.rotatesCredentials() // of Cinder, whose operator was started last
		h.removes("Remove Manila", "manila", "manila")
	})
}

func TestHelm4(t *testing.T) {
	t.Parallel()
	installsWithHelm(t, "helm4", "Install", func(h *helmCluster) {
		h.removes("Remove Cinder", "cinder", "cinder|standard-csi|/cloud-conf$|attacher")
	})
}

func installsWithHelm(t *testing.T, name, section string, remove func(*helmCluster)) {
	t.Helper()
	h := startHelm(t, name)
	before := h.objects()
	h.follows(section, "manila")
	h.changesValues()
	h.keepsWhatOthersWrite()
	remove(h)
	h.removesEverything(before)
}

func startHelm(t *testing.T, name string) *helmCluster {
	t.Helper()
	h := &helmCluster{plainKubernetes: startPlainKubernetes(t), operators: map[string]helmOperator{}}
	h.must(os.Symlink(helms()[name], filepath.Join(h.programs(), "helm")))
	return h
}

// TestHelmReportsRefusedLogin installs the chart with a wrong password, for which Helm 4 does not
// wait, and with a Secret of somebody else, which it takes over.
func TestHelmReportsRefusedLogin(t *testing.T) {
	t.Parallel()
	h := startHelm(t, "helm4")
	right := h.cloud.CloudsYAML(simulator.Clouds{})
	wrong := bytes.Replace(right, []byte("password: "), []byte("password: wrong"), 1)
	h.must(os.WriteFile(h.clouds(), wrong, 0o600))
	h.run("kubectl create namespace openstack-csi")
	h.run("kubectl create secret generic openstack-credentials --namespace=openstack-csi " +
		"--from-literal=clouds.yaml=")
	commands, err := guide.Commands(filepath.Join(repository, "docs/helm.md"), "Install")
	h.must(err)
	output := h.refuses(commands[0])
	assert.Check(t, strings.Contains(output, "invalid ownership metadata"), output)
	err = <-h.waits(strings.TrimSpace(commands[0])+" --take-ownership --force-conflicts", "manila")
	assert.Check(t, is.ErrorContains(err, "status: Failed, message: ManilaCredentialsAccepted: "))
	t.Log(err)
	h.must(os.WriteFile(h.clouds(), right, 0o600))
	h.runs(strings.Replace(commands[0], "helm install", "helm upgrade", 1))
}

// helmCluster is a cluster with a release of the chart.
type helmCluster struct {
	*plainKubernetes
	// operators are those that run, by driver.
	operators map[string]helmOperator
}

type helmOperator struct {
	fixtures.Operator
	stop func()
}

func (h *helmCluster) runs(command string) {
	h.t.Helper()
	h.run(withChart + command)
}

// withChart precedes commands with the chart.
const withChart = `CHART="$RELEASE/openstack-csi-1.0.0.tgz"` + "\n"

// follows runs the commands in a section of the page, except those that need pods of a driver. It
// starts the operator of a driver before the command that waits for it.
func (h *helmCluster) follows(heading, driver string) {
	h.t.Helper()
	commands, err := guide.Commands(filepath.Join(repository, "docs/helm.md"), heading)
	h.must(err)
	for _, command := range commands {
		if strings.HasPrefix(command, "kubectl wait pvc") {
			continue
		}
		if strings.Contains(command, " --wait ") {
			h.must(<-h.waits(command, driver))
			continue
		}
		if _, started := h.operators[driver]; !started &&
			strings.HasPrefix(command, "kubectl wait "+driver+"driver") {
			h.starts(driver)
			h.awaitAvailable()
		}
		h.runs(command)
	}
}

func (h *helmCluster) starts(driver string) {
	stop := h.startOperator(driver)
	h.operators[driver] = helmOperator{h.operator, stop}
}

// waits runs a command that waits for the operator of a driver, and starts the operator.
func (h *helmCluster) waits(command, driver string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- guide.Run(h.ctx(), withChart+command, h.variables()...) }()
	err := guide.Run(h.ctx(), "kubectl wait deployment --namespace=openstack-csi --for=create "+
		"--timeout=1m manila-csi-driver-operator", h.variables()...)
	if err != nil {
		h.t.Fatalf("%v, after %v", err, <-done)
	}
	h.starts(driver)
	return done
}

// upgradeWith precedes values that change.
const upgradeWith = `helm upgrade openstack-csi "$CHART" --namespace=openstack-csi ` +
	"--reset-then-reuse-values --set="

// upgrade runs the command that changes values.
func (h *helmCluster) upgrade(values string) {
	h.t.Helper()
	h.runs(upgradeWith + values)
}

func (h *helmCluster) changesValues() {
	h.follows("Change a value", "cinder")
	h.eventually(func() error {
		class, err := h.cluster.kube.StorageV1().StorageClasses().
			Get(h.ctx(), "csi-manila-default", metav1.GetOptions{})
		if err == nil && class.Annotations[defaultAnnotation] != "true" {
			err = errors.New("the StorageClass is not the default")
		}
		return err
	})
	output := h.refuses(upgradeWith + "monitoring.enabled=true")
	assert.Check(h.t, strings.Contains(output, "is missing: leave monitoring.enabled"), output)
	h.upgrade("csiAddons.enabled=true,snapshotController.enabled=true")
	h.runs("kubectl get networkfences.csiaddons.openshift.io,volumesnapshots -A")
}

// keepsWhatOthersWrite changes what the release does not own.
func (h *helmCluster) keepsWhatOthersWrite() {
	h.runs("kubectl patch cinderdriver cinder.csi.openstack.org --type=merge " +
		`--patch='{"spec": {"logLevel": "Debug"}}'`)
	h.refusesOldDefinitions()
	h.follows("Upgrade", "")
	found, err := h.object()
	h.must(err)
	if found.Spec.LogLevel != opv1.Debug {
		h.t.Errorf("helm changed the log level to %s", found.Spec.LogLevel)
	}
	for _, o := range h.operators {
		h.mustHaveClouds(o.Credentials[0])
	}
}

// refusesOldDefinitions fails the test if the chart installs what the schema would drop.
func (h *helmCluster) refusesOldDefinitions() {
	h.t.Helper()
	h.runs("kubectl annotate crd cinderdrivers.csi.openstack.org csi.openstack.org/revision=0 " +
		"--overwrite")
	h.runs(`helm upgrade openstack-csi "$CHART" --namespace=openstack-csi --reset-then-reuse-values ` +
		`2>&1 | grep "cinderdrivers.csi.openstack.org is of an earlier release"`)
}

// mustHaveClouds fails the test unless a Secret contains the present clouds.yaml.
func (h *helmCluster) mustHaveClouds(secret fixtures.Credential) {
	h.t.Helper()
	data, err := h.cluster.secret(h.ctx(), secret.Namespace, secret.Name)
	h.must(err)
	assert.Check(h.t, data["clouds.yaml"] == string(h.cloud.CloudsYAML(simulator.Clouds{})),
		"Secret %s contains another clouds.yaml", secret.Name)
}

// removes follows the section of the page that removes one driver, whose objects have these names.
func (h *helmCluster) removes(section, driver, names string) {
	h.runs("kubectl delete pvc shared --wait=false --ignore-not-found")
	h.operators[driver].stop()
	h.upgrade(driver + ".enabled=false | grep -i 'the driver of " + driver + " still runs'")
	gone := h.operators[driver].Operator
	h.runs("kubectl get deployment/" + gone.Workloads[0] + " --namespace=" + gone.OperandNamespace)
	delete(h.operators, driver)
	h.follows(section, "")
	found := h.objects()
	for name := range rendered(h.t, helms()["helm4"]+" template "+chart+" "+
		"--set=csiAddons.enabled=true,"+h.remaining()+".enabled=true") {
		assert.Check(h.t, slices.Contains(found, name), "the other operator lacks %s", name)
	}
	for _, name := range found {
		left := !strings.HasPrefix(name, "CustomResourceDefinition ") && // Helm keeps all
			regexp.MustCompile(names).MatchString(name)
		assert.Check(h.t, !left, "%s is left", name)
	}
	h.operator = h.operators[h.remaining()].Operator
	h.eventually(h.notReady)
}

// remaining returns the driver that is not removed.
func (h *helmCluster) remaining() string { return slices.Collect(maps.Keys(h.operators))[0] }

func (h *helmCluster) removesEverything(before []string) {
	driver := h.remaining()
	h.operators[driver].stop()
	h.runs("helm uninstall openstack-csi --namespace=openstack-csi")
	output := h.refuses(`helm install openstack-csi "$CHART" --set=` + driver + ".enabled=true")
	assert.Check(h.t, strings.Contains(output, "runs in namespace openstack-csi: install the chart "+
		"there, or first run: kubectl openstack-csi uninstall "+driver), output)
	// The objects that Helm keeps do not prevent another installation, here with the Secret.
	h.runs(`helm install openstack-csi "$CHART" --namespace=openstack-csi --take-ownership ` +
		`--set-file=credentials.clouds="$CLOUDS" --set=` + driver + ".enabled=true")
	h.mustHaveClouds(h.operator.Credentials[0])
	h.follows("Remove everything", "")
	if diff := cmp.Diff(before, h.objects()); diff != "" {
		h.t.Errorf("objects before the installation, and those that are left (-before +left):\n%s", diff)
	}
}
