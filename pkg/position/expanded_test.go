package position_test

import (
	"testing"

	"go.yaml.in/yaml/v3"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	kyaml "sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// The expanded tree is what Helm and kubectl read.
func TestExpandedTreeIsWhatKubectlReads(t *testing.T) {
	t.Parallel()
	const text = `
a: &a {x: 1, no: yes, list: [on, "on", 1.5, ~, 010]}
b: {<<: *a, x: 2}
c:
  <<: [*a, {y: Off}]
  text: |
    yes
d: [*a, 2001-12-14, !!str yes]
`
	root, err := position.Tree([]byte(text), 1<<10)
	assert.NilError(t, err)
	var want any
	assert.NilError(t, kyaml.Unmarshal([]byte(text), &want))
	assert.Check(t, is.DeepEqual(position.Value(position.Expanded(root.Content[0])), want))
}

func TestSwitchesAreThoseOfKubectl(t *testing.T) {
	t.Parallel()
	for _, word := range []string{
		"y", "Y", "yes", "Yes", "YES", "yEs", "n", "N", "no", "No", "nO", "on", "oN", "ON", "On", "off",
		"OFF", "oFF", "true", "True", "tRue", "FALSE", "yess", "nova", "o",
	} {
		var read any
		assert.NilError(t, kyaml.Unmarshal([]byte(word), &read))
		_, want := read.(string)
		root := &yaml.Node{}
		assert.NilError(t, yaml.Unmarshal([]byte(word), root))
		assert.Check(t, is.Equal(position.IsText(root.Content[0]), want), word)
	}
}

func TestErrorsQuoteNoValue(t *testing.T) {
	t.Parallel()
	root, err := position.Tree([]byte("a: !!int confidential `of`\n"), 1<<10)
	assert.NilError(t, err)
	_, err = position.Of("file", root.Content[0])
	assert.Check(t, is.ErrorContains(err, "cannot decode !!str as a !!int"))
}
