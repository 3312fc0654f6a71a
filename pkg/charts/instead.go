package charts

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

const expected = "values of cinder-csi-plugin or manila-csi-plugin"

// instead says what a text is that is no values, and which option takes it; "" if none does.
func instead(text []byte) string {
	other := position.Recognize(text, "")
	other.Advice = map[string]string{
		position.CloudsYAML:  AddLogin,
		position.Certificate: "pass it with --set-file=credentials.cacert=FILE",
		position.OpenRC: "pass the clouds.yaml that the dashboard offers beside it with " +
			"--set-file=credentials.clouds=FILE",
		"the values of a Helm chart": "check it without --values",
	}[other.What]
	if other.Advice == "" {
		return ""
	}
	return other.Instead(expected, "")
}

// noValues says what a file is that contains no values, or a text in an object of it.
func noValues(text []byte, holders []*position.Holder) error {
	for _, h := range holders {
		data := h.Data()
		for _, key := range slices.Sorted(maps.Keys(data)) {
			if what := instead([]byte(data[key].Value)); what != "" {
				return fmt.Errorf("key %s of %s %s %s", key, h.Kind, h.Name, what)
			}
		}
	}
	other := position.Recognize(text, "")
	if other.What == "" || other.What == position.OtherValues {
		return errors.New("the file contains no " + expected + ": most fields of each part are others")
	}
	return fmt.Errorf("the file %s", cmp.Or(instead(text),
		other.Instead(expected, "it contains no such values: see helm get values RELEASE")))
}
