package cinder

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/gcfg.v1"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// driverConfig is the part of the driver's configuration that users may set.
type driverConfig struct {
	BlockStorage api.BlockStorage
	Metadata     struct {
		SearchOrder string `gcfg:"search-order"`
	}
}

// settingsOf returns the settings of a cloud.conf, those before the first error.
func settingsOf(conf string) driverConfig {
	var config driverConfig
	_ = gcfg.ReadStringInto(&config, conf) // reported when cloud.conf is generated
	return config
}

// maxAttachLimit is the maximum and the default of node-volume-attach-limit.
const maxAttachLimit = 256

// knownSettings returns the names of the settings in [BlockStorage].
func knownSettings() (names []string) {
	for field := range reflect.TypeFor[api.BlockStorage]().Fields() {
		names = append(names, field.Tag.Get("gcfg"))
	}
	return names
}

// printed returns the name of a setting for messages, which must contain no secret.
func (e entry) printed() string {
	if name := strings.ToLower(e.name); slices.Contains(knownSettings(), name) {
		return name
	}
	return "this setting"
}

// unsupported is about a setting that the driver does not know.
const unsupported = "the CSI driver does not support this setting"

// remark returns why the driver ignores a setting, or what prevents the driver from starting; both
// are "" for a valid setting. An unknown setting is not an error, as in the driver.
func (e entry) remark() (ignored, refused string) {
	if e.section == metadataSection {
		return "", ""
	}
	var config driverConfig
	config.BlockStorage.NodeVolumeAttachLimit = maxAttachLimit
	warning := gcfg.ReadStringInto(&config, "["+userSection+"]\n"+e.text)
	limit := config.BlockStorage.NodeVolumeAttachLimit
	switch {
	case gcfg.FatalOnly(warning) != nil:
		return "", e.refusal()
	case warning != nil:
		return unsupported, ""
	case limit < 1 || limit > maxAttachLimit:
		return fmt.Sprintf("the CSI driver ignores a %s below 1 or above %d, and uses %[2]d",
			e.printed(), maxAttachLimit), ""
	}
	return "", ""
}

// refusal returns what is wrong with a value that the driver does not accept.
func (e entry) refusal() string {
	_, value, _ := strings.Cut(e.text, "=")
	name, want := e.printed(), "true or false"
	if name == knownSettings()[0] {
		want = fmt.Sprintf("a whole number from 1 to %d, in digits", maxAttachLimit)
	}
	problem := fmt.Sprintf("%s must be %s, and is %s", name, want, shape(value))
	if strings.Contains(value, "//") {
		problem += ". Comments begin with ; or #"
	}
	return problem
}

// shape returns what a value is, without any part of it.
func shape(value string) string {
	tree, err := position.Tree([]byte(value), len(value))
	switch {
	case strings.TrimSpace(value) == "":
		return "empty"
	case err != nil || len(tree.Content) == 0:
		return "a text"
	case position.IsTemplate(value):
		return "a template that is not filled in"
	}
	return position.Shape(tree.Content[0])
}

// similar says which setting a name may mean, and otherwise which ones there are.
func similar(name string) string {
	name = strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(name))
	if best := position.Similar(knownSettings(), name); best != "" {
		return ". Write " + best
	}
	if name == strings.ReplaceAll(userTopologyKey, "_", "-") {
		return ". Write it as a key of the ConfigMap, beside this text"
	}
	return ". It supports " + strings.Join(knownSettings(), ", ") + ". Remove it"
}
