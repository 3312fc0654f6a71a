package openstack_test

import (
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/test/budget"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// FuzzAnswers searches for an answer of OpenStack that costs too much.
func FuzzAnswers(f *testing.F) {
	for _, part := range []string{
		`{"name":"n#"},`, `{},`, `[`, `{"name":"a","tags":["a","b","c","d"]},`,
	} {
		text := budget.Repeated(`{"share_types":[`, part, 8<<20-2)
		f.Add(strings.TrimSuffix(text, ",") + "]}")
		f.Add(strings.TrimSuffix(text[:4<<20], ",") + "]}")
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := newSimulated(t, simulator.Config{})
		client := s.connected()
		for _, service := range []simulator.Service{simulator.Share, simulator.Identity} {
			s.fault(foreign(service, simulator.Answer{Body: body}))
			budget.Check(t, func() { _, _ = client.ShareTypes(t.Context()) })
			client = s.client() // which logs in
		}
	})
}
