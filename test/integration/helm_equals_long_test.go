//go:build integration && long && helm

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/charts"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// TestHelmTableHasEachValueOfOtherCharts compares the table with the charts of
// cloud-provider-openstack in Go's module cache.
func TestHelmTableHasEachValueOfOtherCharts(t *testing.T) {
	t.Parallel()
	rows, err := charts.Rows()
	assert.NilError(t, err)
	for chart, kind := range map[string]choice.Kind{
		"cinder-csi-plugin": choice.Cinder, "manila-csi-plugin": choice.Manila,
	} {
		values, text := otherValues(t, chart)
		found := map[string]bool{}
		for _, leaf := range leaves(values, "") {
			var matching []string
			for _, row := range rows {
				if name := row.Match(kind, leaf); name != "" {
					matching = append(matching, name)
					found[name] = true
				}
			}
			assert.Check(t, len(matching) == 1, "%s: %s is in the rows %q", chart, leaf, matching)
		}
		for _, row := range rows {
			for _, name := range row.Of(kind) {
				last := name[strings.LastIndex(name, ".")+1:]
				commented := regexp.MustCompile(`(?m)^ *# *` + regexp.QuoteMeta(last) + `:`)
				has := found[name] || row.Since == "" && commented.Match(text)
				assert.Check(t, is.Equal(has, row.Since == ""), "%s: value %s", chart, name)
			}
		}
	}
	reasons := 0
	for _, row := range rows {
		assert.Check(t, (row.Why == "") == (row.Here != "" && len(row.See) > 0), "%+v", row)
		if row.Why != "" {
			reasons++
		}
	}
	assert.Check(t, reasons <= 12, "%d rows have only a reason", reasons)
}

// otherChart returns the folder of a chart of cloud-provider-openstack.
func otherChart(t *testing.T, name string) string {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "-C",
		filepath.Join(repository, "test/node/images/programs"), "mod", "download", "-json",
		"k8s.io/cloud-provider-openstack")
	output, err := download.Output()
	assert.NilError(t, err)
	var module struct{ Dir string }
	assert.NilError(t, json.Unmarshal(output, &module))
	return filepath.Join(module.Dir, "charts", name)
}

// otherValues returns the values of such a chart, and their text.
func otherValues(t *testing.T, chart string) (values map[string]any, text []byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(otherChart(t, chart), "values.yaml"))
	assert.NilError(t, err)
	assert.NilError(t, yaml.Unmarshal(text, &values))
	return values, text
}

// leaves returns the names of the values that are no maps with values.
func leaves(value any, name string) []string {
	below, ok := value.(map[string]any)
	if !ok || len(below) == 0 {
		return []string{name}
	}
	var names []string
	for step, child := range below {
		names = append(names, leaves(child, strings.TrimPrefix(name+"."+step, "."))...)
	}
	return names
}

// TestHelmEqualsOfOtherChartsReachObjects installs the chart with all values of the table, and
// finds their effects in the objects that the chart and the operators write.
func TestHelmEqualsOfOtherChartsReachObjects(t *testing.T) {
	t.Parallel()
	h := startHelm(t, "helm4")
	h.run("kubectl create -f " + filepath.Join(shared.Kubernetes, "manifests/crds"))
	h.run("kubectl wait crd --all --for=condition=Established --timeout=1m")
	rows, err := charts.Rows()
	assert.NilError(t, err)
	var sets []string
	wanted := map[string][]string{}
	for _, row := range rows {
		sets = append(sets, row.Set...)
		for object, text := range row.See {
			wanted[object] = append(wanted[object], text)
		}
	}
	h.runs(`helm install openstack-csi "$CHART" --namespace=openstack-csi --create-namespace ` +
		`--set=cinder.enabled=true,manila.enabled=true --set-file=credentials.clouds="$CLOUDS" ` +
		"--set='" + strings.Join(sets, ",") + "'")
	h.startOperator("cinder")
	h.startOperator("manila")
	h.eventually(func() error { return h.lacks(wanted) })
}

// lacks returns an error that names the texts which objects do not contain.
func (h *helmCluster) lacks(wanted map[string][]string) error {
	output, err := guide.Output(h.ctx(), "kubectl get --namespace=openstack-csi --output=json "+
		"deployments,daemonsets,secrets,storageclasses,csidrivers,configmaps,maniladrivers,"+
		"servicemonitors.monitoring.coreos.com", h.variables()...)
	if err != nil {
		return err
	}
	var list unstructured.UnstructuredList
	if err := list.UnmarshalJSON([]byte(output)); err != nil {
		return err
	}
	missing := maps.Clone(wanted)
	var problems []string
	for _, object := range list.Items {
		name := object.GetKind() + "/" + object.GetName()
		delete(missing, name)
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(object.Object); err != nil {
			return err
		}
		for _, want := range wanted[name] {
			if !strings.Contains(text.String(), want) {
				problems = append(problems, fmt.Sprintf("%s has no %s:\n%s", name, want, &text))
			}
		}
	}
	for name := range missing {
		problems = append(problems, name+" does not exist")
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems, such as: %s", len(problems), problems[0])
	}
	return nil
}
