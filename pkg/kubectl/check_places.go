package kubectl

import (
	"cmp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/position"
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

// nearest returns where a field belongs that the map at a path may not have, if that is up to three
// levels away, also in another spelling. Of several the nearest count.
func (j *judged) nearest(name string, at []string) (paths []string) {
	shared := func(place []string) (count int) {
		for count < min(len(at), len(place)-1) && (at[count] == place[count] ||
			slices.Contains([]string{eachItem, eachKey}, place[count])) {
			count++
		}
		return count
	}
	distance := func(place []string) int { return len(at) + len(place) - 1 - 2*shared(place) }
	var found [][]string // with the name at the end
	_, exists := j.places[name]
	for known, places := range j.places {
		for _, place := range places {
			if known == name || !exists && position.IsSpelling(known, name) {
				found = append(found, append(slices.Clip(place), known))
			}
		}
	}
	slices.SortFunc(found, func(a, b []string) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(shared(b), shared(a)),
			slices.Compare(a, b))
	})
	const away, most = 3, 4 // most is the number of parts of the chart with an image
	for _, place := range slices.CompactFunc(found, slices.Equal) {
		if distance(place) > min(away, distance(found[0])) || len(paths) == most {
			break
		}
		paths = append(paths, strings.ReplaceAll(strings.Join(place, "."), "."+eachItem, eachItem))
	}
	return paths
}

// moves says where the fields below a key belong that is no field itself.
func (j *judged) moves(value *yaml.Node, at []string) (moves []string) {
	for i := 0; value.Kind == yaml.MappingNode && i+1 < len(value.Content); i += 2 {
		if right := j.nearest(value.Content[i].Value, at); len(right) > 0 {
			moves = append(moves, value.Content[i].Value+" to "+right[0])
		}
	}
	return moves
}
