package cinder

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
	on, off          = "on", "off"
	firstOn          = "on at first"
	firstOff         = "off at first"
	unknown, noZones = "unknown", "no answer"
)

func meaning(compute, volume []openstack.Zone) string {
	zones, err := newZoneLists(compute, volume)
	if err != nil {
		return noZones
	}
	first, err := zones.first()
	topology, certain := zones.certain()
	switch {
	case certain && err == nil && topology == first:
		return map[bool]string{true: on, false: off}[first]
	case certain:
		return fmt.Sprintf("certainly %v, at first %v, %v", topology, first, err)
	case err != nil:
		return unknown
	}
	return map[bool]string{true: firstOn, false: firstOff}[first]
}

func TestZonesDetermineTopology(t *testing.T) {
	t.Parallel()
	many, long := manyNames(5000), strings.Repeat("z", 63)
	reversed := slices.Clone(many)
	slices.Reverse(reversed)
	for name, test := range map[string]struct {
		compute, volume []openstack.Zone
		want            string
	}{
		"equal":                            {up("a", "b"), up("a", "b"), on},
		"equal, in another order":          {up("a", "b", "c"), up("c", "a", "b"), on},
		"more zones for volumes":           {up("a"), up("a", "b"), on},
		"more zones for servers":           {up("a", "b"), up("a"), off},
		"disjoint":                         {up("a", "b"), up("nova"), off},
		"as many, one differs":             {up("a", "b"), up("a", "c"), off},
		"longer compute list":              {up("a", "b", "c", "d"), up("a"), off},
		"shorter compute list":             {up("d"), up("a", "b", "c", "d"), on},
		"nothing at all":                   {nil, nil, noZones},
		"no compute zone":                  {nil, up("a"), noZones},
		"empty compute list":               {[]openstack.Zone{}, up("a"), noZones},
		"no volume zone":                   {up("a"), nil, noZones},
		"no available compute zone":        {down("a"), up("a"), on},
		"none available, none for volumes": {down("a"), up("b"), unknown},
		"no available zone at all":         {down("a"), down("a"), unknown},
		"volume zone in maintenance":       {up("a"), down("a"), unknown},
		"one of two volume zones down":     {up("a", "b"), append(up("a"), down("b")...), firstOff},
		"compute zone down, none for it":   {append(up("a"), down("b")...), up("a"), firstOn},
		"compute zone down, volume's up":   {append(up("a"), down("b")...), up("a", "b"), on},
		"both down in the same zone": {
			append(up("a"), down("b")...), append(up("a"), down("b")...),
			firstOn,
		},
		"each down in another zone": {
			append(up("a"), down("b")...), append(up("b"), down("a")...),
			firstOff,
		},
		"other volume zone down":            {up("a"), append(up("a"), down("b")...), on},
		"no volumes for one, one down":      {append(up("a", "c"), down("b")...), up("a"), off},
		"no volumes for one, other down":    {up("a", "b"), append(up("c"), down("b")...), off},
		"compute name twice":                {up("a", "a"), up("a"), on},
		"volume name twice":                 {up("a", "b"), up("a", "a"), off},
		"names twice on both sides":         {up("a", "a", "b", "b"), up("b", "b", "a", "a"), on},
		"compute name up and down":          {append(up("a"), down("a")...), up("a"), on},
		"compute name down and up, no vol.": {append(down("b"), up("b", "a")...), up("a"), off},
		"volume name up and down":           {up("a"), append(up("a"), down("a")...), on},
		"volume name down and up":           {up("a"), append(down("a"), up("a")...), on},
		"names differ in case":              {up("AZ1"), up("az1"), off},
		"capitals, and all characters":      {up("AZ-1", "b_2.C"), up("AZ-1", "b_2.C"), on},
		"space":                             {up("zone 1"), up("zone 1"), off},
		"space in one of two":               {up("a", "zone 1"), up("a", "zone 1"), off},
		"space, for volumes alone":          {up("a"), up("a", "zone 1"), on},
		"space, compute zone down":          {append(up("a"), down("z 1")...), up("a", "z 1"), firstOn},
		"space, volume zone down":           {up("z 1"), append(up("a"), down("z 1")...), off},
		"umlaut":                            {up("Zürich"), up("Zürich"), off},
		"punctuation at an end":             {up("az1."), up("az1."), off},
		"63 characters":                     {up(long), up(long), on},
		"64 characters":                     {up(long + "z"), up(long + "z"), off},
		"equal for the driver":              {up("zone 1", "zone-1"), up("zone 1", "zone-1"), off},
		"names differ in space":             {up("az1"), up("az1 "), off},
		"huge":                              {up(many...), up(reversed...), on},
		"huge, one lacks":                   {up(many...), up(many[:4999]...), off},
		"huge for volumes only":             {up("zone-4999"), up(many...), on},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compute, volume := slices.Clone(test.compute), slices.Clone(test.volume)
			assert.Check(t, is.Equal(meaning(compute, volume), test.want), "topology")
			assert.Check(t, slices.Equal(compute, test.compute) && slices.Equal(volume, test.volume),
				"a list was changed")
		})
	}
}

// TestTopologyIsImmuneToMaintenance makes any zones of a cloud unavailable, and checks that no
// probe contradicts a certain result.
func TestTopologyIsImmuneToMaintenance(t *testing.T) {
	t.Parallel()
	const zones = 3
	all := append(manyNames(zones-1), "no label")
	for listed := range 1 << (2 * zones) {
		compute, volume := up(pick(all, listed)...), up(pick(all, listed>>zones)...)
		healthy := meaning(compute, volume)
		for away := range 1 << (2 * zones) {
			for i := range compute {
				compute[i].Available = away&(1<<i) == 0
			}
			for i := range volume {
				volume[i].Available = away&(1<<(zones+i)) == 0
			}
			got := meaning(compute, volume)
			if (got == on || got == off || healthy == noZones) && got != healthy {
				t.Fatalf("topology is %s with all zones in service, and %s with compute %v, volume %v",
					healthy, got, compute, volume)
			}
		}
	}
}

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
	lists := func(compute, volume []string) zoneLists {
		zones, err := newZoneLists(up(compute...), up(volume...))
		assert.NilError(t, err)
		return zones
	}
	small := lists([]string{"b", "a"}, []string{"a"})
	for _, test := range []struct {
		zones, before zoneLists
		want          string
	}{
		{small, zoneLists{}, "compute zones a, b; volume zones a"},
		{small, lists([]string{"a"}, []string{"a"}), "compute zones a -> a, b; volume zones a -> a"},
		{
			lists([]string{"a\n\x1b[2J", "zone \u00fc"}, []string{"a"}),
			zoneLists{},
			`compute zones "a\n\x1b[2J", "zone ü"; volume zones a; node labels cannot hold the names ` +
				`of compute zones "a\n\x1b[2J", "zone ü"`,
		},
	} {
		assert.Check(t, is.Equal(test.zones.since(test.before), test.want))
	}
	many := lists(manyNames(5000), manyNames(5000))
	if got := many.since(many); len(got) > 500 || !strings.Contains(got, "4995 more") {
		t.Errorf("the message about very many zones is %q", got)
	}
}
