//go:build integration && long && helm

package integration

import (
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
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// chart are the arguments of each rendering.
const chart = repository + "/assets/helm/generated/openstack-csi --kube-version=1.36.0 " +
	"--namespace=openstack-csi"

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
	for _, text := range strings.Split(output, "\n---\n") {
		object := &unstructured.Unstructured{}
		assert.NilError(t, yaml.Unmarshal([]byte(text), &object.Object))
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
		"pods.node.nodeSelector.zone=1":        "at '/pods/node/nodeSelector/zone': got number, want string",
		"images.digests.csi-addons=v1":         "at '/images/digests/csi-addons': 'v1' does not match",
		"credentials.clouds=x":                 "credentials.existing=false",
		"credentials.existing=false":           "set credentials.clouds",
		"manila.enabled=false":                 "enable a driver",
		"manila.spec.logLevel=Loud":            "at '/manila/spec/logLevel': value must be one of",
	} {
		for name, helm := range helms() {
			output, err := guide.Output(t.Context(), helm+" template "+chart+
				" --set=manila.enabled=true --set="+value)
			assert.Check(t, err != nil && strings.Contains(output, want),
				"%s with %s: the output is\n%swant %s", name, value, output, want)
		}
	}
}

// Each value changes the objects for which docs/helm.md describes it.
func TestHelmValuesChangeObjects(t *testing.T) {
	t.Parallel()
	const operator = "Deployment openstack-csi/manila-csi-driver-operator"
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, test := range []struct{ value, object, want string }{
		{"images.registry=a.io,images.tag=v1", operator, `"a.io/manila-csi-driver-operator:v1"`},
		{"images.digests.csi-addons=" + digest, operator, `"value":"csi-addons@` + digest + `"`},
		{"images.pullSecrets={login}", operator, `"imagePullSecrets":[{"name":"login"}]`},
		{"manila.image=mine", operator, `"image":"mine"`},
		{"manila.replicas=0", operator, `"replicas":0`},
		{"manila.resources.limits.cpu=2", operator, `"resources":{"limits":{"cpu":2}}`},
		{"manila.env.DRIVER_IMAGE=mine", operator, `{"name":"DRIVER_IMAGE","value":"mine"}`},
		{`proxy.http=http://a\$b`, operator, `{"name":"HTTP_PROXY","value":"http://a$$b"}`},
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
			"kubeletDir=/a,cinder.spec.enableTopology=false", "CinderDriver /cinder.csi.openstack.org",
			`"spec":{"enableTopology":false,"kubeletDir":"/a","managementState":"Managed"}`,
		},
		{
			"credentials.existing=false,credentials.clouds=a,credentials.cacert=b",
			"Secret openstack-csi/openstack-credentials",
			`"data":{"cacert":"Yg==","clouds.yaml":"YQ=="}`,
		},
	} {
		for name, helm := range helms() {
			object := rendered(t, helm+" template "+chart+" --set="+
				"manila.enabled=true,cinder.enabled=true,csiAddons.enabled=true,"+test.value)[test.object]
			text, err := json.Marshal(object)
			assert.Check(t, err == nil && strings.Contains(string(text), test.want),
				"%s with %s: %s is %s, want %s", name, test.value, test.object, text, test.want)
		}
	}
}

// TestHelm3 and TestHelm4 run the commands of docs/helm.md.
func TestHelm3(t *testing.T) {
	t.Parallel()
	installsWithHelm(t, "helm3", func(h *helmCluster) {
		h.removes("Remove Manila", "manila", "manila")
	})
}

func TestHelm4(t *testing.T) {
	t.Parallel()
	installsWithHelm(t, "helm4", func(h *helmCluster) {
		h.removes("Remove Cinder", "cinder", "cinder|standard-csi|/cloud-conf$|attacher")
	})
}

func installsWithHelm(t *testing.T, name string, remove func(*helmCluster)) {
	t.Helper()
	h := &helmCluster{plainKubernetes: startPlainKubernetes(t), operators: map[string]helmOperator{}}
	h.must(os.Symlink(helms()[name], filepath.Join(h.programs(), "helm")))
	before := h.objects()
	h.follows("Install", "manila")
	h.changesValues()
	h.keepsWhatOthersWrite()
	remove(h)
	h.removesEverything(before)
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
		if strings.HasPrefix(command, "kubectl wait "+driver+"driver") {
			stop := h.startOperator(driver)
			h.operators[driver] = helmOperator{h.operator, stop}
			h.awaitAvailable()
		}
		h.runs(command)
	}
}

// upgrade runs the command that changes values.
func (h *helmCluster) upgrade(values string) {
	h.t.Helper()
	h.runs(`helm upgrade openstack-csi "$CHART" --namespace=openstack-csi ` +
		"--reset-then-reuse-values --set=" + values)
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
	h.upgrade("csiAddons.enabled=true,snapshotController.enabled=true")
	h.runs("kubectl get networkfences.csiaddons.openshift.io,volumesnapshots -A")
}

// keepsWhatOthersWrite changes what the release does not own.
func (h *helmCluster) keepsWhatOthersWrite() {
	h.runs("kubectl patch cinderdriver cinder.csi.openstack.org --type=merge " +
		`--patch='{"spec": {"logLevel": "Debug"}}'`)
	h.rotatesCredentials() // of Cinder, whose operator was started last
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
	h.runs("kubectl delete pvc shared --wait=false")
	h.operators[driver].stop()
	h.upgrade(driver + ".enabled=false")
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
	// The objects that Helm keeps do not prevent another installation, here with the Secret.
	secret := h.operator.Credentials[0]
	h.runs("kubectl delete secret " + secret.Name + " --namespace=" + secret.Namespace)
	h.runs(`helm install openstack-csi "$CHART" --namespace=openstack-csi ` +
		`--set=credentials.existing=false --set-file=credentials.clouds="$CLOUDS" --set=` +
		driver + ".enabled=true")
	h.mustHaveClouds(secret)
	h.follows("Remove everything", "")
	if diff := cmp.Diff(before, h.objects()); diff != "" {
		h.t.Errorf("objects before the installation, and those that are left (-before +left):\n%s", diff)
	}
}
