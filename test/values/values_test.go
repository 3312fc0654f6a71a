package values_test

import (
	"encoding/json"
	"fmt"
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

// The schema accepts null exactly where a value may be missing, also beside others that are null.
func TestNullIsAValueThatIsNotSet(t *testing.T) {
	t.Parallel()
	schema, err := os.ReadFile("../../assets/helm/generated/openstack-csi/values.schema.json")
	assert.NilError(t, err)
	maker, err := values.New(schema, 3)
	assert.NilError(t, err)
	places := map[bool]int{}
	for range 300 {
		valid, err := maker.Valid()
		assert.NilError(t, err)
		eachMap(valid, func(parent map[string]any) {
			for name, value := range parent {
				delete(parent, name)
				optional := maker.Refuses(valid) == nil
				parent[name] = nil
				refused := maker.Refuses(valid)
				assert.Check(t, optional == (refused == nil), "%s: %v\n%v", name, refused, encoded(valid))
				places[optional]++
				parent[name] = value
			}
		})
	}
	assert.Check(t, places[true] > 1000 && places[false] > 50, "%v", places)
}

// eachMap calls a function with each map in a value.
func eachMap(value any, call func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		call(value)
		for _, child := range value {
			eachMap(child, call)
		}
	case []any:
		for _, child := range value {
			eachMap(child, call)
		}
	}
}

func encoded(value any) string {
	text, err := json.Marshal(value)
	return fmt.Sprintf("%s %v", text, err)
}
