package choice_test

import (
	"reflect"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

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
