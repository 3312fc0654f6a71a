package kubectl

import (
	"cmp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The steps of paths in a schema for each item of a list, and for each key of a map that chooses
// its keys.
const eachItem, eachKey = "[]", "NAME"

// addPlaces adds the maps in a schema, which is that of the value at a path.
func (j *judged) addPlaces(schema *jsonschema.Schema, at []string) {
	if schema == nil {
		return
	}
	for _, same := range append([]*jsonschema.Schema{schema.Ref, schema.Else}, schema.AnyOf...) {
		j.addPlaces(same, at)
	}
	below := func(step string) []string { return append(slices.Clip(at), step) }
	for name, field := range schema.Properties {
		j.places[name] = append(j.places[name], at)
		j.addPlaces(field, below(name))
	}
	j.addPlaces(schema.Items2020, below(eachItem))
	if value, ok := schema.AdditionalProperties.(*jsonschema.Schema); ok {
		j.addPlaces(value, below(eachKey))
	}
}

// nearest returns the places of a field that the map at a path may not have, if they are one or two
// levels away, or up to three levels deeper. Of several the nearest count.
func (j *judged) nearest(name string, at []string) (paths []string) {
	shared := func(place []string) (count int) {
		for count < min(len(at), len(place)) && (at[count] == place[count] ||
			slices.Contains([]string{eachItem, eachKey}, place[count])) {
			count++
		}
		return count
	}
	distance := func(place []string) int { return len(at) + len(place) - 2*shared(place) }
	found := slices.SortedFunc(slices.Values(j.places[name]), func(a, b []string) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(shared(b), shared(a)),
			slices.Compare(a, b))
	})
	const near, deep, most = 2, 3, 4 // most is the number of parts of the chart with an image
	for _, place := range slices.CompactFunc(found, slices.Equal) {
		away, isDeeper := distance(place), shared(place) == len(at)
		if away > distance(found[0]) || away > near && (away > deep || !isDeeper) || len(paths) == most {
			break
		}
		path := strings.Join(append(slices.Clip(place), name), ".")
		paths = append(paths, strings.ReplaceAll(path, "."+eachItem, eachItem))
	}
	return paths
}
