//go:build openstack

package comparison

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/test/golden"
	"github.com/openstack-csi/csi-operator/test/openstack/services"
)

func TestRecordedAnswersAreThoseOfTheServices(t *testing.T) {
	t.Parallel()
	access, err := services.LoadAccess(os.Getenv(services.AccessVariable))
	check(t, err)
	got := encode(t, answers(t, services.NewCloud(access, config())))
	if golden.Update() {
		check(t, os.WriteFile(answersFile, []byte(got), 0o644))
	}
	want, err := os.ReadFile(answersFile)
	check(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("-update writes the new answers (-want +got):\n%s", diff)
	}
}

// encode returns JSON with the answer to each request in a line, in the order of the requests.
func encode(t *testing.T, all map[string]Fields) string {
	t.Helper()
	text, separator := &bytes.Buffer{}, "{"
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	for _, request := range requests(t) {
		text.WriteString(separator + `"` + request.Name + `": `)
		check(t, encoder.Encode(all[request.Name]))
		separator = ","
	}
	return text.String() + "}\n"
}
