package charts

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// reference is what an entry of a list says about an object, whatever its fields are called.
type reference struct {
	// names and keys are values of fields whose names end so.
	names, keys []string
	// ofMap and ofSecret are true if a field, or its value, is called so.
	ofMap, ofSecret bool
	// isTargeted means that a text is only a part of the values.
	isTargeted bool
}

// read adds a field, or all fields below it.
func (r *reference) read(field string, node *yaml.Node) {
	field = strings.ToLower(field)
	is := func(kind string) bool {
		return strings.HasPrefix(field, kind) ||
			node.Kind == yaml.ScalarNode && strings.EqualFold(node.Value, kind)
	}
	r.ofMap, r.ofSecret = r.ofMap || is("configmap"), r.ofSecret || is("secret")
	switch {
	case field == "targetpath":
		r.isTargeted = true
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			r.read(node.Content[i].Value, node.Content[i+1])
		}
	case node.Kind == yaml.SequenceNode:
		for _, one := range node.Content {
			r.read(field, one)
		}
	case strings.HasSuffix(field, "name"):
		r.names = append(r.names, node.Value)
	case strings.HasSuffix(field, "key"), strings.HasSuffix(field, "keys"):
		r.keys = append(r.keys, node.Value)
	}
}

// referred returns the texts to which a reference refers.
func (h *holder) referred(r reference) []*yaml.Node {
	isOther := r.ofMap != r.ofSecret && r.ofSecret != (h.Kind == "Secret")
	if isOther || r.isTargeted || !slices.Contains(r.names, h.Name) {
		return nil
	}
	h.isUsed = true
	usual := h.Data["values.yaml"] != nil
	return h.nodes(func(key string) bool {
		return slices.Contains(r.keys, key) || len(r.keys) == 0 && (key == "values.yaml" || !usual)
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
