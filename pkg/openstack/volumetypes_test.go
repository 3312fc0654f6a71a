package openstack_test

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const volumeTypesPath = "/volume/v3/types"

func TestVolumeTypesAreListed(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{})
	client := s.client()
	found, err := client.VolumeTypes(t.Context())
	check(t, err)
	assert.Check(t, is.DeepEqual([]string{"__DEFAULT__"}, namesOf(found)), "types")
	s.wantCalls(map[string]int{loginCall: 1, "GET " + volumeTypesPath: 1})
}

// TestAnswersAboutVolumeTypes also covers lists of several pages.
func TestAnswersAboutVolumeTypes(t *testing.T) {
	t.Parallel()
	page := func(first, count int, next string) string {
		var types []string
		for i := range count {
			types = append(types, fmt.Sprintf(`{"name":"type-%04d"}`, first+i))
		}
		return fmt.Sprintf(`{"volume_types":[%s],"volume_type_links":[%s]}`,
			strings.Join(types, ","), next)
	}
	for name, test := range map[string]struct {
		answer func(next string) string
		want   int
		fault  string
	}{
		"none":            {func(string) string { return page(0, 0, "") }, 0, ""},
		"most":            {func(string) string { return page(0, 1000, "") }, 1000, ""},
		"endless pages":   {func(next string) string { return page(0, 900, next) }, 0, "more than 10000"},
		"another answer":  {func(string) string { return `{"types":[]}` }, 0, notAnAPI},
		"no name":         {func(string) string { return `{"volume_types":[{"id":"1"}]}` }, 0, notAnAPI},
		"a list of texts": {func(string) string { return `{"volume_types":["gold"]}` }, 0, notAnAPI},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{})
			s.clouds(simulator.Clouds{})
			next := fmt.Sprintf(`{"rel":"next","href":"%s/types?marker=1"}`,
				s.cloud.Info().Endpoints[simulator.Volume])
			s.fault(foreign(simulator.Volume, simulator.Answer{Body: test.answer(next)}))
			found, err := s.client().VolumeTypes(t.Context())
			if test.fault == "" {
				check(t, err)
			} else if err == nil || !strings.Contains(err.Error(), test.fault) ||
				openstack.ReasonOf(err) != openstack.CloudUnreachable {
				t.Errorf("got %v, want %q", err, test.fault)
			}
			assert.Check(t, err != nil || len(found) == test.want,
				"%d types, want %d", len(found), test.want)
		})
	}
}
