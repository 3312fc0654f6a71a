package meaning

import (
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
)

func TestMeaningsAnswerTheQuestion(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/meanings.yaml")
	assert.NilError(t, err)
	var tests []struct {
		Text, Stops, Next, Rank string
		Topic                   Topic
	}
	assert.NilError(t, yaml.UnmarshalStrict(content, &tests))
	for _, test := range tests {
		got := Of(fault.Parse(test.Text))
		assert.Check(t, strings.Contains(got.Stops, test.Stops), "%s: %s", test.Text, got.Stops)
		assert.Check(t, (got.Stops == "") == (test.Stops == ""), "%s: %s", test.Text, got.Stops)
		assert.Check(t, strings.Contains(got.Next, test.Next), "%s: %s", test.Text, got.Next)
		assert.Check(t, got.Topic == test.Topic, "%s: %s", test.Text, got.Topic)
		assert.Check(t, rankNames()[got.Rank] == test.Rank, "%s: %d", test.Text, got.Rank)
	}
}
