package charts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// holder is the manifest of a ConfigMap or of a Secret, whose data is decoded.
type holder struct {
	corev1.Secret
	// isUsed is true if another object refers to it.
	isUsed bool
}

// holderOf returns nil for another document.
func holderOf(tree *yaml.Node) *holder {
	fields, _ := position.Value(tree).(map[string]any)
	h := &holder{}
	if fields["kind"] == "ConfigMap" {
		fields["stringData"] = fields["data"]
		delete(fields, "data")
	} else if fields["kind"] != "Secret" {
		return nil
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &h.Secret) != nil {
		return nil
	}
	data := map[string][]byte{}
	maps.Copy(data, h.Data)
	for key, text := range h.StringData {
		data[key] = []byte(text)
	}
	h.Data = data
	return h
}

// referred returns the texts to which an entry of a list refers, whatever its fields are called:
// some contain the name and keys, and a field or its value the kind.
func (h *holder) referred(entry *yaml.Node) []*yaml.Node {
	text, _ := json.Marshal(position.Value(entry))
	has := func(before, word, after string) bool {
		return regexp.MustCompile("(?i)" + before + regexp.QuoteMeta(word) + after).Match(text)
	}
	ofMap, ofSecret := has(`"`, "configMap", ""), has(`"`, "secret", "")
	if ofMap != ofSecret && ofSecret != (h.Kind == "Secret") || has("", "targetPath", "") ||
		!has(`"name":"`, h.Name, `"`) {
		return nil
	}
	h.isUsed = true
	usual, isOne := h.Data["values.yaml"] != nil, has("", "key", `s?":`)
	return h.nodes(func(key string) bool {
		return has(`keys?":[^:]*"`, key, `"`) || !isOne && (key == "values.yaml" || !usual)
	})
}

// nodes returns the texts with some keys.
func (h *holder) nodes(is func(key string) bool) (all []*yaml.Node) {
	for _, key := range slices.Sorted(maps.Keys(h.Data)) {
		if is(key) {
			all = append(all, &yaml.Node{Kind: yaml.ScalarNode, Value: string(h.Data[key])})
		}
	}
	return all
}

const expected = "values of cinder-csi-plugin or manila-csi-plugin"

// instead says what a text is that is no values, and which option takes it; "" if none does.
func instead(text []byte) string {
	other := position.Recognize(text, "")
	other.Advice = map[string]string{
		position.CloudsYAML:  "pass it with --set-file=credentials.clouds=FILE",
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
func noValues(text []byte, holders []*holder) error {
	for _, h := range holders {
		for _, key := range slices.Sorted(maps.Keys(h.Data)) {
			if what := instead(h.Data[key]); what != "" {
				return fmt.Errorf("key %s of %s %s %s", key, h.Kind, h.Name, what)
			}
		}
	}
	other := position.Recognize(text, "")
	if other.What == "" || other.What == position.OtherValues {
		return errors.New("the file contains no " + expected + ": most fields of each part are others")
	}
	return fmt.Errorf("the file %s", cmp.Or(instead(text),
		other.Instead(expected, "it contains no such values")))
}
