package charts

import (
	"encoding/json"
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
