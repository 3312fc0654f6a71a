//go:build integration && long && helm

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/charts"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// TestHelmValuesOfOtherChartsAreTranslated sets each value of the charts to another one of its
// type: it has an equal or a remark. Those of Secrets and StorageClasses mean something together
// only.
func TestHelmValuesOfOtherChartsAreTranslated(t *testing.T) {
	t.Parallel()
	for chart, kind := range map[string]choice.Kind{
		"cinder-csi-plugin": choice.Cinder, "manila-csi-plugin": choice.Manila,
	} {
		defaults, _ := otherValues(t, chart)
		translated := func(changed map[string]any) string {
			v, err := charts.New()
			assert.NilError(t, err)
			if err := v.AddChart(kind, changed, defaults); err != nil {
				return err.Error()
			}
			text, err := v.YAML()
			assert.NilError(t, err)
			return string(text)
		}
		usual := translated(defaults)
		for _, leaf := range leaves(defaults, "") {
			steps := strings.Split(leaf, ".")
			if slices.Contains([]string{"secret", "storageClass"}, steps[0]) ||
				strings.HasPrefix(leaf, "csimanila.runtimeConfig.") {
				continue
			}
			changed := runtime.DeepCopyJSON(defaults)
			value, _, err := unstructured.NestedFieldNoCopy(changed, steps...)
			assert.NilError(t, err)
			assert.NilError(t, unstructured.SetNestedField(changed, another(value), steps...))
			assert.Check(t, translated(changed) != usual, "%s of %s is lost", leaf, chart)
		}
	}
}

// another returns a value of the type of a default.
func another(value any) any {
	switch of := value.(type) {
	case bool:
		return !of
	case float64:
		return int64(7)
	case []any:
		return []any{map[string]any{"name": "another", "protocolSelector": "CEPHFS", "key": "another"}}
	case map[string]any:
		return map[string]any{"another": "another"}
	}
	if value == "true" {
		return "false"
	}
	return "/another"
}

// others are values of the chart of Cinder.
const others = `
clusterID: mine
logVerbosityLevel: 4
csi:
  attacher: {extraArgs: "- --worker-threads=7", resources: {limits: {cpu: 0.5, memory: 301Mi}}}
  plugin:
    controllerPlugin: {replicas: 2, tolerations: [{operator: Exists}]}
secret:
  enabled: true
  create: true
  name: cloud-config
  data:
    cloud.conf: |
      [Global]
      auth-url = https://k:5000/v3
      application-credential-id = app
      application-credential-secret = "confidential"
      [BlockStorage]
      rescan-on-resize = true
storageClass:
  delete: {isDefault: true}
  custom: |
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: sas}
    provisioner: cinder.csi.openstack.org
    parameters: {type: SAS}
`

// TestHelmChartAcceptsTranslatedValues installs the charts of cloud-provider-openstack, and renders
// our chart with the values that the plugin prints for them: from their record, from the file with
// their values, and from the objects.
func TestHelmChartAcceptsTranslatedValues(t *testing.T) {
	t.Parallel()
	k := startPlainKubernetes(t)
	h := &helmCluster{plainKubernetes: k}
	file := filepath.Join(string(k.dir), "others.yaml")
	k.must(os.WriteFile(file, []byte(others), 0o600))
	program := filepath.Join(k.programs(), "helm")
	k.run("kubectl create secret generic shares --from-literal=os-authURL=https://k:5000/v3 " +
		"--from-literal=os-applicationCredentialID=app " +
		"--from-literal=os-applicationCredentialSecret=confidential")
	for _, helm := range helms() {
		k.must(os.Symlink(helm, program))
		k.run("helm install cinder-csi " + otherChart(t, "cinder-csi-plugin") +
			" --namespace=kube-system --values=" + file)
		k.run("helm install manila-csi " + otherChart(t, "manila-csi-plugin") +
			" --namespace=kube-system --set=csimanila.clusterID=shares,csimanila.pvcAnnotations=true")
		values, remarks := h.translated("")
		for path, want := range map[string]any{
			"cinder.spec.clusterID": "mine", "cinder.spec.topology": "Enabled",
			"cinder.spec.logLevel": "Debug", "cinder.spec.pods.controller.replicas": 2.0,
			"cinder.spec.blockStorage.rescanOnResize": true,
			"cinder.spec.defaultClass":                "csi-cinder-sc-delete",
			"manila.spec.clusterID":                   "shares", "manila.spec.claimAnnotations": true,
		} {
			found, _, err := unstructured.NestedFieldNoCopy(values, strings.Split(path, ".")...)
			assert.Check(t, err == nil && found == want, "%s is %v, %v", path, found, err)
		}
		assert.Check(t, is.Contains(remarks, "Cinder: csi.attacher.extraArgs: "))
		assert.Check(t, !strings.Contains(remarks, "confidential"), remarks)
		assert.Check(t, !strings.Contains(remarks, "differs from the release"), remarks)
		h.translated(" --filename=" + file)
		k.run("kubectl scale deployment --namespace=kube-system --replicas=3 --all")
		_, remarks = h.translated("")
		assert.Check(t, is.Contains(remarks, "It differs from the release at replicas"))
		k.run("kubectl delete secrets --namespace=kube-system --selector=owner=helm,name=cinder-csi")
		values, _ = h.translated("")
		replicas, _, err := unstructured.NestedFloat64(values, "cinder", "spec", "pods", "controller",
			"replicas")
		assert.Check(t, err == nil && replicas == 3, "%v replicas, %v", replicas, err)
		k.run("helm template cinder-csi " + otherChart(t, "cinder-csi-plugin") +
			" --namespace=kube-system --values=" + file + " | kubectl delete --wait --filename=-")
		k.run("helm uninstall manila-csi --namespace=kube-system")
		k.must(os.Remove(program))
	}
}

// translated returns the values that the plugin prints, and the remarks in front of them. The chart
// accepts them.
func (h *helmCluster) translated(flags string) (values map[string]any, remarks string) {
	h.t.Helper()
	file := filepath.Join(string(h.dir), "values.yaml")
	h.run("kubectl openstack-csi check --values" + flags + " > " + file)
	text, err := os.ReadFile(file)
	h.must(err)
	h.must(yaml.Unmarshal(text, &values))
	output, err := guide.Output(h.ctx(), withChart+`helm template openstack-csi "$CHART" `+
		"--kube-version=1.36.0 --values="+file, h.variables()...)
	h.must(err)
	assert.Check(h.t, is.Contains(output, "kind: CinderDriver"))
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			remarks += line
		}
	}
	return values, remarks
}
