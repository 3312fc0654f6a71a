package comparison

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFieldsReplaceWhatTwoCloudsCannotShare(t *testing.T) {
	t.Parallel()
	header := http.Header{
		"X-Subject-Token": {"gAAAAABx-y_z"}, "Date": {"now"},
		"X-Openstack-Request-Id": {"req-01234567-89ab-cdef-0123-456789abcdef"},
	}
	body := `{"id": "0123456789abcdef0123456789abcdef", "number": 7, "none": null, "list": [],
		"object": {}, "user": {"name": "someone at http://host:1/v3"},
		"times": ["2026-01-02T03:04:05.678901Z", "2026-01-02 03:04:05"]}`
	names := map[string]string{"user": "someone", "identity": "http://host:1"}
	want := Fields{
		"status": "201", "header X-Subject-Token": "{token}",
		"header X-Openstack-Request-Id": "req-{uuid}",
		".id":                           `"{hex}"`, ".number": "7", ".none": "<nil>", ".list": "[]",
		".object": "{}", ".user.name": `"{user} at {identity}/v3"`,
		".times[0]": `"{date}T{time}.{microseconds}Z"`, ".times[1]": `"{date} {time}"`,
	}
	got := NewFields(http.StatusCreated, header, []byte(body), names)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	got = NewFields(http.StatusNotFound, nil, []byte("no JSON"), nil)
	if diff := cmp.Diff(Fields{"status": "404", "body": "no JSON"}, got); diff != "" {
		t.Errorf("fields of text (-want +got):\n%s", diff)
	}
}

func TestDifferencesAreFound(t *testing.T) {
	t.Parallel()
	simulator := Fields{"status": "200", ".same": "1", ".value": "1", ".only": "1"}
	services := Fields{"status": "200", ".same": "1", ".value": "2", ".missing": "1"}
	want := []Difference{
		{"r", ".missing", "", "1"}, {"r", ".only", "1", ""}, {"r", ".value", "1", "2"},
	}
	if diff := cmp.Diff(want, Compare("r", simulator, services)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

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
