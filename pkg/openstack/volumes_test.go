package openstack_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Links to a next page never end if the cloud answers each with the same page.
func TestVolumesAreListed(t *testing.T) {
	t.Parallel()
	page := func(count int, more string) string {
		var all []string
		for i := range count {
			all = append(all, fmt.Sprintf(`{"id":"%d","status":"available","metadata":{"a":"b"}}`, i))
		}
		return fmt.Sprintf(`{"volumes":[%s],"volumes_links":[%s]}`, strings.Join(all, ","), more)
	}
	for name, test := range map[string]struct {
		answer, fault string
		want          int
	}{
		"some":           {page(2, ""), "", 2},
		"none":           {page(0, ""), "", 0},
		"endless pages":  {page(900, `{"rel":"next"}`), "more than 10000", 0},
		"another answer": {`{"servers":[]}`, notAnAPI, 0},
		"no ID":          {`{"volumes":[{"status":"available"}]}`, notAnAPI, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			s.clouds(simulator.Clouds{})
			s.fault(foreign(simulator.Volume, simulator.Answer{Body: test.answer}))
			found, err := s.client().Volumes(t.Context())
			if test.fault == "" {
				check(t, err)
			} else if err == nil || !strings.Contains(err.Error(), test.fault) ||
				openstack.ReasonOf(err) != openstack.CloudUnreachable {
				t.Errorf("got %v, want %q", err, test.fault)
			}
			if err == nil && (len(found) != test.want || test.want > 0 && found[1].Metadata["a"] != "b") {
				t.Errorf("got %+v, want %d", found, test.want)
			}
		})
	}
}
