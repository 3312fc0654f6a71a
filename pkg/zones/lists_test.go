package zones

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

func up(names ...string) []openstack.Zone {
	var zones []openstack.Zone
	for _, name := range names {
		zones = append(zones, openstack.Zone{Name: name, Available: true})
	}
	return zones
}

func down(names ...string) []openstack.Zone {
	zones := up(names...)
	for i := range zones {
		zones[i].Available = false
	}
	return zones
}

func manyNames(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("zone-%d", i)
	}
	return names
}

// The results of lists: on and off are valid whichever zone is in maintenance. The other results
// are valid only for a driver that was never deployed; unknown is no result for it either.
const (
	on, off           = "on", "off"
	firstOn, firstOff = "on at first", "off at first"
	unknown, noZones  = "unknown", "no answer"
)

func meaning(of Storage, compute, volume []openstack.Zone) string {
	zones, err := newLists(compute, volume, of)
	if err != nil {
		return noZones
	}
	topology, err := zones.first()
	_, certain := zones.certain()
	switch {
	case err != nil:
		return unknown
	case certain:
		return map[bool]string{true: on, false: off}[topology]
	}
	return map[bool]string{true: firstOn, false: firstOff}[topology]
}

func TestZonesDetermineTopology(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("z", 64)
	upDown := func(available, other string) []openstack.Zone {
		return append(up(available), down(other)...)
	}
	for name, test := range map[string]struct {
		compute, volume []openstack.Zone
		want            string
	}{
		"equal, in another order":          {up("a", "b", "c"), up("c", "a", "b"), on},
		"more zones for volumes":           {up("a"), up("a", "b"), on},
		"as many, one differs":             {up("a", "b"), up("a", "c"), off},
		"no compute zone":                  {nil, up("a"), noZones},
		"no volume zone":                   {up("a"), nil, noZones},
		"no available compute zone":        {down("a"), up("a"), on},
		"none available, none for volumes": {down("a"), up("b"), unknown},
		"volume zone in maintenance":       {up("a"), down("a"), unknown},
		"one of two volume zones down":     {up("a", "b"), upDown("a", "b"), firstOff},
		"compute zone down, none for it":   {upDown("a", "b"), up("a"), firstOn},
		"both down in the same zone":       {upDown("a", "b"), upDown("a", "b"), firstOn},
		"other volume zone down":           {up("a"), upDown("a", "b"), on},
		"no volumes for one, one down":     {append(up("c"), upDown("a", "b")...), up("a"), off},
		"compute name up and down":         {upDown("a", "a"), up("a"), on},
		"volume name down and up":          {up("a"), append(down("a"), up("a")...), on},
		"capitals, and all characters":     {up("AZ-1", "b_2.C"), up("AZ-1", "b_2.C"), on},
		"names differ in case":             {up("AZ1"), up("az1"), off},
		"space in one of two":              {up("a", "zone 1"), up("a", "zone 1"), off},
		"space, for volumes alone":         {up("a"), up("a", "zone 1"), on},
		"space, compute zone down":         {upDown("a", "z 1"), up("a", "z 1"), firstOn},
		"63 characters":                    {up(long[1:]), up(long[1:]), on},
		"64 characters":                    {up(long), up(long), off},
	} {
		assert.Check(t, is.Equal(meaning(Volumes(), test.compute, test.volume), test.want), name)
	}
}

// The test makes any zones of a cloud unavailable. Manila hides zones, so it never turns topology
// off.
func TestTopologyIsImmuneToMaintenance(t *testing.T) {
	t.Parallel()
	const zones = 3
	all := append(manyNames(zones-1), "no label")
	for _, of := range []Storage{Volumes(), Shares()} {
		for listed := range 1 << (2 * zones) {
			compute, volume := up(pick(all, listed)...), up(pick(all, listed>>zones)...)
			healthy := meaning(of, compute, volume)
			for away := range 1 << (2 * zones) {
				for i := range compute {
					compute[i].Available = away&(1<<i) == 0
				}
				for i := range volume {
					volume[i].Available = away&(1<<(zones+i)) == 0
				}
				got := meaning(of, compute, seen(of, volume))
				assert.Assert(t, got == healthy || got != on && got != off && healthy != noZones,
					"topology is %s with all zones in service, and %s with compute %v, %s %v", healthy, got,
					compute, of.Noun, volume)
				assert.Assert(t, got != off || !isManila(of), "compute %v, %s %v", compute, of.Noun, volume)
			}
		}
	}
}

// seen returns the zones that a service lists.
func seen(of Storage, zones []openstack.Zone) []openstack.Zone {
	return slices.DeleteFunc(slices.Clone(zones), func(zone openstack.Zone) bool {
		return isManila(of) && !zone.Available
	})
}

func isManila(of Storage) bool { return of.Noun == Shares().Noun }

// pick returns the names whose bits are set.
func pick(names []string, bits int) []string {
	var picked []string
	for i, name := range names {
		if bits&(1<<i) != 0 {
			picked = append(picked, name)
		}
	}
	return picked
}

func TestZonesInMessages(t *testing.T) {
	t.Parallel()
	lists := func(compute, volume []string) Lists {
		zones, err := newLists(up(compute...), up(volume...), Volumes())
		assert.NilError(t, err)
		return zones
	}
	small := lists([]string{"b", "a"}, []string{"a"})
	for _, test := range []struct {
		zones, before Lists
		want          string
	}{
		{small, Lists{}, "compute zones a, b; volume zones a"},
		{small, lists([]string{"a"}, []string{"a"}), "compute zones a -> a, b; volume zones a -> a"},
		{
			lists([]string{"a\n\x1b[2J", "zone \u00fc"}, []string{"a"}),
			Lists{},
			`compute zones "a\n\x1b[2J", "zone ü"; volume zones a; node labels cannot hold the names ` +
				`of compute zones "a\n\x1b[2J", "zone ü"`,
		},
	} {
		assert.Check(t, is.Equal(test.zones.since(test.before), test.want))
	}
	many := lists(manyNames(5000), manyNames(5000))
	got := many.since(many)
	assert.Check(t, len(got) <= 500 && strings.Contains(got, "4995 more"), "very many zones: %q", got)
}
