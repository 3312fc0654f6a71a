package comparison

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
	if diff := cmp.Diff(found[1:2], unknown); diff != "" {
		t.Errorf("unknown differences (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(known[2:], stale); diff != "" {
		t.Errorf("stale entries (-want +got):\n%s", diff)
	}
}
