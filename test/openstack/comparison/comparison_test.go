package comparison

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestUnknownDifferencesAndStaleEntriesAreReported(t *testing.T) {
	t.Parallel()
	found := []Difference{
		{Request: "volumes/list", Field: ".volumes[0].name"},
		{Request: "types", Field: "status"},
		{Request: "types", Field: "header Vary"},
	}
	known := []Known{
		{Request: "*", Field: ".volumes[0].*"},
		{Request: "types", Field: "header *"},
		{Request: "types", Field: ".volumes[0].name"},
	}
	unknown, stale := Judge(found, known)
	assert.Check(t, is.DeepEqual(found[1:2], unknown), "unknown differences")
	assert.Check(t, is.DeepEqual(known[2:], stale), "stale entries")
}
