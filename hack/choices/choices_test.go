package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	assert.NilError(t, err)
	return string(content)
}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := generate(root)
	assert.NilError(t, err)
	for name, want := range files {
		assert.Check(t, is.DeepEqual(want, read(t, name)), "%s is out of date: run `make update`", name)
	}
}

func compile(t *testing.T, kind choice.Kind) *jsonschema.Schema {
	t.Helper()
	file := "assets/schema/" + strings.ToLower(string(kind)) + ".v1alpha1.json"
	compiler := jsonschema.NewCompiler()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(read(t, file)))
	assert.NilError(t, err)
	assert.NilError(t, compiler.AddResource("schema.json", value))
	compiled, err := compiler.Compile("schema.json")
	assert.NilError(t, err)
	return compiled
}

func accepts(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	converted, err := yaml.YAMLToJSON([]byte(text))
	assert.NilError(t, err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(converted)))
	assert.NilError(t, err)
	return s.Validate(value)
}

func TestExamplesOfPagesAreValid(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)```yaml\n(apiVersion: config.csi.*?\nkind: (\\w+)\n.*?)```")
	for page, want := range map[string]int{
		"docs/manila.md": 1, "docs/cinder.md": 1,
	} {
		examples := block.FindAllStringSubmatch(read(t, page), -1)
		assert.Check(t, len(examples) == want,
			"%s contains %d examples, want %d", page, len(examples), want)
		for _, example := range examples {
			kind := choice.Kind(example[2])
			assert.Check(t, accepts(t, compile(t, kind), example[1]), "an example in %s", page)
			if _, faults := choice.Parse(kind, example[1], flavour.Kubernetes); len(faults) > 0 {
				t.Errorf("an example in %s: %v", page, faults)
			}
		}
	}
}

// TestSchemaAgreesWithTheOperator compares faults of the structure, which both detect.
func TestSchemaAgreesWithTheOperator(t *testing.T) {
	t.Parallel()
	compiled := compile(t, choice.Manila)
	const header = "apiVersion: config.csi.openstack.org/v1alpha1\nkind: ManilaConfig\n"
	for _, text := range []string{
		"{}", strings.Replace(header, "Manila", "Cinder", 1), header + "type: {}", header + "types: []",
		header + "driver: Sometimes", header + "class: {reclaimPolicy: Recycle}",
		header + "class: {labels: {a: 1}}", header + "classes: [{name: x}]",
		header + "classes: [{type: " + strings.Repeat("x", 256) + "}]",
		header + "class: {mountOptions: [" + strings.Repeat("a,", 101) + "]}", header + "class:",
		header + "pods: {node: {resources: {csi-driver: {limits: {memory: 128m}}}}}",
		header + "pods: {node: {resources: {csi-driver: {limits: {memory: '0.5'}}}}}",
	} {
		_, faults := choice.Parse(choice.Manila, text, flavour.Kubernetes)
		if err := accepts(t, compiled, text); err == nil || len(faults) == 0 {
			t.Errorf("the schema says %v, the operator %v, about %s", err, faults, text)
		}
	}
}
