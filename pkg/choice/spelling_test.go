package choice_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Users know the settings by the parameters of their StorageClasses.
func TestParametersOfStorageClassesLeadToTheirFields(t *testing.T) {
	t.Parallel()
	config, faults := choice.Parse(choice.Manila, complete, flavour.Kubernetes)
	assert.Assert(t, len(faults) == 0, "got %v", faults)
	parameters := func(options choice.Class) map[string]string {
		shares := classes.Class{Type: openstack.Type{NeedsNetwork: true}, Options: options}
		return classes.Names{}.OfShares(shares, "", "").Parameters
	}
	always, others := parameters(choice.Class{}), 0
	for _, f := range choice.Fields(choice.Manila, reflect.TypeFor[choice.Class]()) {
		var one choice.Class
		value := reflect.ValueOf(config.Class).FieldByIndex(f.Index)
		reflect.ValueOf(&one).Elem().FieldByIndex(f.Index).Set(value)
		assert.Check(t, !value.IsZero(), f.Name)
		for parameter := range parameters(one) {
			_, isAlways := always[parameter]
			if name := choice.FieldName(f); !isAlways && parameter != name {
				others++
				assert.Check(t, is.Equal(faultsOf(t, choice.Manila, header+"class: {"+parameter+": x}\n"),
					`3: unknown field "class.`+parameter+`": here it is called `+name))
				assert.Check(t, is.Equal(faultsOf(t, choice.Manila, header+parameter+": x\n"),
					`3: unknown field "`+parameter+`": write it as class.`+name))
			}
		}
	}
	assert.Check(t, others > 1)
}

// Fields of pods are often written one level too high.
func TestFieldsOneLevelTooHighLeadToTheirParents(t *testing.T) {
	t.Parallel()
	checked := 0
	var check func(of reflect.Type, before, after string)
	check = func(of reflect.Type, before, after string) {
		switch kind := of.Kind(); {
		case of == reflect.TypeFor[resource.Quantity]():
		case kind == reflect.Pointer:
			check(of.Elem(), before, after)
		case kind == reflect.Slice:
			check(of.Elem(), before+"[", "]"+after)
		case kind == reflect.Map:
			check(of.Elem(), before+"{x: ", "}"+after)
		case kind == reflect.Struct:
			for _, f := range choice.Fields(choice.Manila, of) {
				for _, name := range childrenOnly(of, f.Type) {
					checked++
					_, faults := choice.Parse(choice.Manila, header+before+"{"+name+": x}"+after,
						flavour.Kubernetes)
					assert.Assert(t, len(faults) > 0, name)
					_, parents, _ := strings.Cut(faults[len(faults)-1].Problem, "."+name+`": write it below `)
					want := choice.FieldName(f)
					if f.Type.Kind() == reflect.Map {
						want = "an entry of " + want
					}
					assert.Check(t, is.Contains(strings.Split(parents, " or "), want), "%v", faults)
				}
				check(f.Type, before+"{"+choice.FieldName(f)+": ", "}"+after)
			}
		}
	}
	check(reflect.TypeFor[choice.Pods](), "pods: ", "")
	assert.Check(t, checked > 50, "%d", checked)
}

// childrenOnly returns the fields that the type of a field has, and its own struct does not have.
func childrenOnly(of, below reflect.Type) (names []string) {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, below.Kind()) {
		below = below.Elem()
	}
	if below.Kind() != reflect.Struct || below == reflect.TypeFor[resource.Quantity]() {
		return nil
	}
	for _, child := range choice.Fields(choice.Manila, below) {
		name := choice.FieldName(child)
		isOwn := slices.ContainsFunc(choice.Fields(choice.Manila, of),
			func(own reflect.StructField) bool { return choice.FieldName(own) == name })
		if !isOwn && name != "request" { // requests is meant
			names = append(names, name)
		}
	}
	return names
}
