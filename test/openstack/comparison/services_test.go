//go:build openstack

package comparison

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/openstack-csi/csi-operator/test/golden"
	"github.com/openstack-csi/csi-operator/test/openstack/services"
)

func TestRecordedAnswersAreThoseOfTheServices(t *testing.T) {
	t.Parallel()
	access, err := services.LoadAccess(os.Getenv(services.AccessVariable))
	check(t, err)
	golden.Match(t, answersFile, encode(t, answers(t, services.NewCloud(access, config()))))
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
