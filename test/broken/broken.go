// Package broken generates clusters in which one step of storage fails, with what an administrator
// must learn about it. The tests of `kubectl openstack-csi why` call it.
//
// Objects contain what the real components write; the texts are those of gophercloud and gRPC, in
// the formats of the components. The answer is known because the fault was chosen, so nothing here
// comes from the code that is tested.
package broken

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed testdata/objects.yaml
var objectsYAML []byte

//go:embed testdata/faults.yaml
var faultsYAML []byte

// Flavour is which cluster the administrator sees.
type Flavour string

// The flavours.
const (
	Standalone Flavour = "standalone"
	// Guest is a guest cluster of HyperShift whose control plane is not visible.
	Guest Flavour = "guest"
	// Managed is a guest cluster with the flags for its management cluster.
	Managed Flavour = "managed"
)

// ControlPlane is the namespace of the hosted control plane in the management cluster.
const ControlPlane = "clusters-a"

// Situation is a cluster in which something fails.
type Situation struct {
	// Name is step/fault/driver/kind of the object/flavour.
	Name    string
	Flavour Flavour
	// Args are the arguments of `kubectl openstack-csi`.
	Args []string
	// Objects complete a healthy standalone cluster. Those that it contains are changes.
	Objects []unstructured.Unstructured
	// Gone are kinds and names of objects of the healthy cluster that do not exist.
	Gone   []string
	Answer Answer
	// Names are what the world chose, by role.
	Names map[string]string
}

// Step returns the step that fails.
func (s *Situation) Step() string { return strings.Split(s.Name, "/")[0] }

// Answer is what the first line contains: at least one of the words of each fact, between which is
// a bar. The facts are the object, what stops it, where, and what to do next.
type Answer struct {
	Facts []string
	// Never is in no part of the output.
	Never string
}

// Lacks returns the facts that a first line does not contain, and what it must not say.
func (a Answer) Lacks(first, output string) (lacking []string) {
	for _, fact := range a.Facts {
		if !slices.ContainsFunc(strings.Split(fact, "|"), func(word string) bool {
			return strings.Contains(strings.ToLower(first), strings.ToLower(word))
		}) {
			lacking = append(lacking, fact)
		}
	}
	for word := range strings.SplitSeq(a.Never, "|") {
		if word != "" && strings.Contains(output, word) {
			lacking = append(lacking, "never: "+word)
		}
	}
	return lacking
}

// fault is a row of faults.yaml.
type fault struct {
	Step, Name string
	// Driver serves the volume, by default one after the other. Ask are the kinds of the questions,
	// About is the name of the object if it is not that of its kind.
	Driver, Ask, About string
	// Flavours is "all" if the answer depends on the flavour. Otherwise the flavours take turns.
	Flavours string
	Items    []any
	Facts    []string
	Never    string
}

// source is what the files contain.
type source struct {
	objects, groups map[string]any
	rows            []map[string]any
}

func read() (*source, error) {
	s := &source{}
	var file struct {
		Groups map[string]any   `json:"groups"`
		Faults []map[string]any `json:"faults"`
	}
	if err := yaml.Unmarshal(objectsYAML, &s.objects); err != nil {
		return nil, fmt.Errorf("reading objects.yaml: %w", err)
	}
	if err := yaml.Unmarshal(faultsYAML, &file); err != nil {
		return nil, fmt.Errorf("reading faults.yaml: %w", err)
	}
	s.groups, s.rows = file.Groups, file.Faults
	return s, nil
}

// parse returns the fault of a row, whose unknown fields are items.
func parse(row map[string]any) (f fault, err error) {
	text, err := yaml.Marshal(row)
	if err != nil {
		return f, err
	}
	if err := yaml.Unmarshal(text, &f); err != nil {
		return f, err
	}
	known := []string{"step", "name", "driver", "ask", "about", "flavours", "items", "facts", "never"}
	for _, key := range slices.Sorted(maps.Keys(row)) {
		if !slices.Contains(known, key) {
			f.Items = append(f.Items, map[string]any{key: row[key]})
		}
	}
	return f, nil
}

// All returns all situations with what a world chooses.
func All(w World) (all []Situation, err error) {
	from, err := read()
	if err != nil {
		return nil, err
	}
	for _, row := range from.rows {
		f, err := parse(row)
		if err != nil {
			return nil, err
		}
		for _, driver := range []string{"cinder", "manila"} {
			for _, kind := range strings.Fields(f.Ask) {
				if f.Driver != "" && f.Driver != driver {
					continue
				}
				flavours := []Flavour{Standalone, Guest, Managed}
				if f.Flavours == "" {
					turn := len(all) % len(flavours)
					flavours = flavours[turn : turn+1]
				}
				for _, flavour := range flavours {
					one, err := from.situation(w, f, driver, kind, flavour)
					if err != nil {
						return nil, fmt.Errorf("%s/%s: %w", f.Step, f.Name, err)
					}
					all = append(all, one)
				}
			}
		}
	}
	return all, nil
}
