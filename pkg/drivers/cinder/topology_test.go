package cinder_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/drivers/cinder"
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

func TestTopology(t *testing.T) {
	t.Parallel()
	many := manyNames(5000)
	reversed := slices.Clone(many)
	slices.Reverse(reversed)
	for name, test := range map[string]struct {
		compute, volume []openstack.Zone
		want            bool
	}{
		"equal":                            {up("a", "b"), up("a", "b"), true},
		"equal, in another order":          {up("a", "b", "c"), up("c", "a", "b"), true},
		"more zones for volumes (63)":      {up("a"), up("a", "b"), true},
		"more zones for servers (61)":      {up("a", "b"), up("a"), false},
		"disjoint (61)":                    {up("a", "b"), up("nova"), false},
		"as many, one differs":             {up("a", "b"), up("a", "c"), false},
		"longer compute list (64)":         {up("a", "b", "c", "d"), up("a"), false},
		"shorter compute list (64)":        {up("d"), up("a", "b", "c", "d"), true},
		"nothing at all (62)":              {nil, nil, false},
		"no compute zone":                  {nil, up("a"), false},
		"empty compute list":               {[]openstack.Zone{}, up("a"), false},
		"no volume zone":                   {up("a"), nil, false},
		"no available compute zone":        {down("a"), up("a"), false},
		"no available zone at all":         {down("a"), down("a"), false},
		"volume zone down":                 {up("a"), down("a"), false},
		"one of two volume zones down":     {up("a", "b"), append(up("a"), down("b")...), false},
		"compute zone down, none for it":   {append(up("a"), down("b")...), up("a"), true},
		"compute zone down, volume's up":   {append(up("a"), down("b")...), up("a", "b"), true},
		"both down in the same zone":       {append(up("a"), down("b")...), append(up("a"), down("b")...), true},
		"other volume zone down":           {up("a"), append(up("a"), down("b")...), true},
		"compute name twice":               {up("a", "a"), up("a"), true},
		"volume name twice":                {up("a", "b"), up("a", "a"), false},
		"names twice on both sides":        {up("a", "a", "b", "b"), up("b", "b", "a", "a"), true},
		"compute name up and down":         {append(up("a"), down("a")...), up("a"), true},
		"compute name down and up, no vol": {append(down("b"), up("b", "a")...), up("a"), false},
		"volume name up and down":          {up("a"), append(up("a"), down("a")...), true},
		"volume name down and up":          {up("a"), append(down("a"), up("a")...), true},
		"names differ in case":             {up("AZ1"), up("az1"), false},
		"names differ in space":            {up("az1"), up("az1 "), false},
		"huge":                             {up(many...), up(reversed...), true},
		"huge, one lacks":                  {up(many...), up(many[:4999]...), false},
		"huge for volumes only":            {up("zone-4999"), up(many...), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compute, volume := slices.Clone(test.compute), slices.Clone(test.volume)
			if got := cinder.Topology(compute, volume); got != test.want {
				t.Errorf("topology %v, want %v", got, test.want)
			}
			if !slices.Equal(compute, test.compute) || !slices.Equal(volume, test.volume) {
				t.Error("a list was changed")
			}
		})
	}
}
