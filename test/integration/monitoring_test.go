//go:build integration

package integration

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

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
	names := strings.NewReplacer("${NAMESPACE}", flavour.DefaultNamespace,
		"${OPERATOR_NAMESPACE}", flavour.DefaultNamespace)
	object := &unstructured.Unstructured{}
	e.must(yaml.Unmarshal([]byte(names.Replace(string(text))), &object.Object))
	object.SetName("strict") // the operator may have created an object with its name
	kind := object.GetKind()
	resource := resource("monitoring.coreos.com", strings.ToLower(kind)+"s")
	_, err := e.guest.of(collection{resource, object.GetNamespace()}).Create(e.ctx(), object,
		metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		})
	e.must(err)
	return kind
}
