package charts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

var (
	flag = regexp.MustCompile(`--([a-z][\w-]*)=?([^\s"'\]]*)`)
	// theirs is a label of pods of other charts, or of their manifests.
	theirs = regexp.MustCompile(
		`"(openstack-(cinder|manila)-csi|(csi-cinder-)?(node|controller)plugin)"`)
)

// addSettings sets the equals of variables or flags, and returns the names of the others.
func (v *Values) addSettings(
	kind choice.Kind, row Row, about string, value any,
) (others []string) {
	all := settingsOf(value)
	for _, name := range slices.Sorted(maps.Keys(all)) { // the upper case has precedence
		here := strings.ReplaceAll(row.Words[strings.ToLower(name)], "DRIVER", lower(kind))
		var text any = all[name]
		if number, err := strconv.Atoi(all[name]); err == nil {
			text = number
		}
		switch old := lookUp(v.content, here); {
		case here == "" || text == "":
			others = append(others, name)
		case old == nil:
			v.Set(kind, here, text, about)
			v.Remark(about+": "+name, "It becomes %s, for all pods and new classes.", here)
		case old != text:
			v.Remark(about+": "+name, "It is not taken over, because another one has another value.")
		}
	}
	return others
}

// settingsOf returns variables, or flags of a text, a list or a mapping, "" without a plain value.
func settingsOf(value any) map[string]string {
	all := map[string]string{}
	list, _ := value.([]any)
	for _, one := range list {
		if fields, ok := one.(map[string]any); ok {
			all[fmt.Sprint(fields["name"])], _ = fields["value"].(string)
		}
	}
	flags, _ := value.(map[string]any)
	for flag, text := range flags {
		all[strings.TrimLeft(flag, "-")] = fmt.Sprint(text)
	}
	if len(all) == 0 {
		for _, found := range flag.FindAllStringSubmatch(fmt.Sprint(value), -1) {
			all[found[1]] = found[2]
		}
	}
	return all
}

// selectOurs lets what selects pods of another chart select ours, and returns whether it changed.
func selectOurs(kind choice.Kind, value any) (changed bool) {
	fields, _ := value.(map[string]any)
	if text, _ := json.Marshal(fields["labelSelector"]); theirs.Match(text) {
		side := "controller"
		if bytes.Contains(text, []byte("nodeplugin")) {
			side = "node"
		}
		labels := map[string]any{"app": "openstack-cinder-csi-driver-" + side}
		if kind == choice.Manila {
			labels = map[string]any{"app": "openstack-manila-csi", "component": side + "plugin"}
		}
		fields["labelSelector"], changed = map[string]any{"matchLabels": labels}, true
	}
	for _, below := range fields {
		changed = selectOurs(kind, below) || changed
	}
	list, _ := value.([]any)
	for _, below := range list {
		changed = selectOurs(kind, below) || changed
	}
	return changed
}
