//go:build openstack

package comparison

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

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
	assert.Check(t, is.DeepEqual(strings.Split(string(want), "\n"), strings.Split(got, "\n")),
		"-update writes the new answers")
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
