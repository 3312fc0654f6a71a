package kubectl

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/test/values"
)

// A small file can name a large text many times, and each time it would be parsed again.
func TestRepeatedTextsAreLimited(t *testing.T) {
	t.Parallel()
	for _, item := range []string{
		"{kind: Application, spec: {source: {chart: openstack-csi, helm: {values: *text}}}}",
		"{kind: ConfigMap, data: {operator.yaml: *text}}",
	} {
		file := "text: &text 'a: " + strings.Repeat("x", 600<<10) + "'\nkind: List\nitems:\n" +
			strings.Repeat("- "+item+"\n", 1000)
		in := contentsOf("-", []byte(file))
		assert.Check(t, len(in.documents) <= 1)
		assert.Assert(t, is.Len(in.faults, 1))
		assert.Check(t, is.Contains(in.faults[0].Problem, "larger than 1 MiB"))
	}
}

// Whatever tool reads a file, the values in it are checked, and nothing else.
func TestValuesInFilesOfTools(t *testing.T) {
	t.Parallel()
	for reclaim, want := range map[string]int{"Retain": 0, "retain": 1} {
		files, err := values.Wrapped(chartName, map[string]any{
			"clusterID": "mine", "cinder": map[string]any{
				"enabled": true, "spec": map[string]any{"class": map[string]any{"reclaimPolicy": reclaim}},
			},
		})
		assert.NilError(t, err)
		for tool, file := range files {
			in := contentsOf("-", []byte(file))
			configs, faults, err := in.check()
			assert.NilError(t, err)
			assert.Check(t, is.Len(faults, want), "%s: %v", tool, faults)
			assert.Check(t, len(configs) > 0, tool)
		}
	}
}

// Whatever tool reads a file, check accepts the same logins as the chart and the operators.
func TestLoginsInValues(t *testing.T) {
	t.Parallel()
	logins, err := values.Logins()
	assert.NilError(t, err)
	for name, login := range logins {
		files, err := values.Wrapped(chartName, map[string]any{
			"manila": map[string]any{"enabled": true}, "credentials": map[string]any{"clouds": login.Value},
		})
		assert.NilError(t, err)
		for tool, file := range files {
			faults := contentsOf("-", []byte(file)).faults // the schema accepts any value there
			assert.Check(t, login.IsValid == (len(faults) == 0), "%s for %s: %v", name, tool, faults)
			for _, f := range faults {
				assert.Check(t, strings.HasPrefix(f.Problem, loginPath+" ") &&
					!strings.Contains(f.Problem, values.Secret), "%s for %s: %v", name, tool, f)
			}
		}
	}
}

// A tool fills in values of objects, but not the names of fields.
func TestTemplatesAreNotChecked(t *testing.T) {
	t.Parallel()
	for _, filled := range []string{"{{ .name }}", "${NAME}", "$ARGOCD_APP_NAME"} {
		in := contentsOf("-", []byte(fmt.Sprintf(`
kind: ApplicationSet
spec:
  chart: openstack-csi
  valuesObject:
    clusterID: '%[1]s'
    clusterId: '%[1]s'
    images: {mirror: '%[1]s/a'}
`, filled)))
		_, faults, err := in.check()
		assert.NilError(t, err)
		assert.Assert(t, is.Len(faults, 1), "%v", faults)
		assert.Check(t, is.Contains(faults[0].Problem, "did you mean"))
		assert.Check(t, is.Len(in.notes, 3), in.notes)
	}
}

// Argo CD fills in text that is no YAML yet.
func TestTemplatesWithoutQuotationMarks(t *testing.T) {
	t.Parallel()
	in := contentsOf("-", []byte(`
kind: ApplicationSet
spec:
  chart: openstack-csi
  parameters:
  - {name: cinder.spec.topolgy, value: Enabled}
  values: |
    {{- if .manila }}
    manila:
      enabled: {{ eq (index .labels "it's") "true" }} # or not
    {{- end }}
    clusterId: {{ .name }}-a
    images:
      pullSecrets:
      - {{ .login }}
`))
	_, faults, err := in.check()
	assert.NilError(t, err)
	assert.Assert(t, is.Len(faults, 2), "%v", faults)
	for i, want := range []string{"5 did you mean \"topology\"", "11 did you mean \"clusterID\""} {
		line, problem, _ := strings.Cut(want, " ")
		assert.Check(t, is.Contains(faults[i].Problem, problem))
		assert.Check(t, is.Equal(fmt.Sprint(faults[i].Line-1), line))
	}
	assert.Check(t, is.Len(in.notes, 3), in.notes)
}

// Each field of the schema, one level higher or deeper than where it belongs, gets its place.
func TestMisplacedFieldsGetTheirPlace(t *testing.T) {
	t.Parallel()
	compiler, err := newCompiler()
	assert.NilError(t, err)
	for definition, at := range map[string]string{"": "", "/$defs/CinderDriver": "spec"} {
		schema, err := compiler.Compile(schemaURL + "#" + definition)
		assert.NilError(t, err)
		all := judged{places: map[string][][]string{}}
		all.addPlaces(schema, nil)
		fieldsOf := map[string]map[string]bool{} // the fields of each map
		for name, places := range all.places {
			for _, place := range places {
				path := strings.Join(place, ".")
				if fieldsOf[path] == nil {
					fieldsOf[path] = map[string]bool{}
				}
				fieldsOf[path][name] = true
			}
		}
		moved := 0
		for name, places := range all.places {
			for _, place := range places {
				right := strings.Join(append(slices.Clip(place), name), ".")
				wrong := [][]string{place[:max(0, len(place)-1)]}
				for beside := range fieldsOf[strings.Join(place, ".")] {
					wrong = append(wrong, append(slices.Clip(place), beside))
				}
				for _, one := range wrong {
					fields := fieldsOf[strings.Join(one, ".")]
					if fields == nil || fields[name] || !strings.HasPrefix(right, at) {
						continue
					}
					moved++
					advice := all.adviceFor(&yaml.Node{}, one, name, slices.Collect(maps.Keys(fields)))
					assert.Check(t, strings.Contains(advice+" ", " "+strings.ReplaceAll(right, ".[]", "[]")+" "),
						"%s.%s%s, want %s", strings.Join(one, "."), name, advice, right)
				}
			}
		}
		assert.Check(t, moved > 500, moved)
	}
}

// Parameters of Argo CD are read as helm --set reads them.
func TestParametersAreTyped(t *testing.T) {
	t.Parallel()
	in := contentsOf("-", []byte(`
kind: Application
spec:
  source:
    chart: openstack-csi
    helm:
      parameters:
      - {name: clusterID, value: "00123"}
      - {name: manila.enabled, value: "true"}
      - {name: 'pods.node.nodeSelector.example\.com/storage', value: "1.0"}
`))
	_, faults, err := in.check()
	assert.NilError(t, err)
	assert.Check(t, is.Len(faults, 0), "%v", faults)
}

// Files in the folder of the file, or below, are checked if it names them as values; others are
// named.
func TestFilesThatAFileNames(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"app/a.yaml":     "clusterId: a\n",
		"app/b/c.yaml":   "# mine\ncinder:\n  spec: {logLevel: debug}\n",
		"app/bad":        "manila: [\n",
		"app/other.yaml": "server: 1\n---\nb: 2\n",
		"outside.yaml":   "clusterId: a\n",
	} {
		assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
		assert.NilError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	const a, c = "app/a.yaml:1: unknown field \"clusterId\"", "app/b/c.yaml:3: cinder.spec.logLevel"
	const rest = "what valueFiles names is not checked"
	for text, want := range map[string][]string{
		"kind: Application\nchart: openstack-csi\nvalueFiles: [a.yaml, ./b/c.yaml]":      {a, c},
		"kind: Application\nchart: openstack-csi\nvalueFiles: [a.yaml, ../outside.yaml]": {a, rest},
		"kind: Application\nchart: openstack-csi\nvalueFiles: [bad]":                     {"app/bad:2:"},
		"kind: Kustomization\nhelmCharts: [{name: openstack-csi, valuesFile: b/c.yaml, " +
			"additionalValuesFiles: [a.yaml]}]": {a, c},
		"kind: Kustomization\nconfigMapGenerator: [{name: openstack-csi, files: [other.yaml, " +
			"bad, v.yaml=b/c.yaml, a.yaml]}]": {c},
	} {
		in := contentsOf(filepath.Join(folder, "app", "file.yaml"), []byte(text))
		_, faults, err := in.check()
		assert.NilError(t, err)
		got := in.notes
		for _, l := range in.problems(faults) {
			got = append(got, l.Text)
		}
		slices.Sort(got)
		got = slices.DeleteFunc(got, func(one string) bool {
			return strings.Contains(one, rest) && !slices.Contains(want, rest)
		})
		assert.Assert(t, is.Len(got, len(want)), "%s: %q", text, got)
		for i := range want {
			assert.Check(t, is.Contains(got[i], want[i]), text)
		}
	}
}
