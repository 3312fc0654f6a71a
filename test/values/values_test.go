package values_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/values"
)

// The same seed makes the same values, which differ from each other.
func TestValuesAreValidAndRepeatable(t *testing.T) {
	t.Parallel()
	schema, err := os.ReadFile("../../assets/helm/generated/openstack-csi/values.schema.json")
	assert.NilError(t, err)
	one, err := values.New(schema, 7)
	assert.NilError(t, err)
	other, err := values.New(schema, 7)
	assert.NilError(t, err)
	refused := 0
	for range 50 {
		valid, err := one.Valid()
		assert.NilError(t, err)
		same, err := other.Valid()
		assert.NilError(t, err)
		assert.Check(t, cmp.Equal(valid, same))
		wrong, err := one.Mutated(valid)
		assert.NilError(t, err)
		if one.Refuses(wrong) != nil {
			refused++
		}
		again, err := other.Mutated(same)
		assert.NilError(t, err)
		assert.Check(t, cmp.Equal(wrong, again))
	}
	assert.Check(t, refused > 25, "the schema refuses %d of 50 mistakes", refused)
}
