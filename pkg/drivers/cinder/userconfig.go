package cinder

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// text is a part of the configuration, with the name of its source and the advice if it is invalid,
// for messages.
type text struct {
	value, source, fix string
	// binary is true if the source contains something that is not text.
	binary bool
}

// or returns the other text if this one is empty.
func (t text) or(other text) text {
	if t.value == "" && !t.binary && (other.value != "" || other.binary) {
		return other
	}
	return t
}

func (t text) read() (string, error) {
	if t.binary {
		return "", t.unusable(errors.New("is binary data, not UTF-8 text"))
	}
	return t.value, nil
}

// unusable returns the error about a text. The text of err continues the name of the source.
func (t text) unusable(err error) error {
	return fmt.Errorf("%s %w: %s; the driver keeps its present configuration", t.source, err, t.fix)
}

// contents is the data of a ConfigMap, empty if the ConfigMap does not exist.
type contents struct {
	source string
	exists bool
	data   map[string]string
	binary map[string][]byte
}

func contentsOf(source string, configMap *corev1.ConfigMap) contents {
	if configMap == nil {
		return contents{source: source}
	}
	return contents{source, true, configMap.Data, configMap.BinaryData}
}

func (c contents) text(key string) text {
	_, binary := c.binary[key]
	source := fmt.Sprintf("key %s of %s", key, c.source)
	return text{value: c.data[key], source: source, fix: "correct it", binary: binary}
}

// userConfig is the configuration of the administrator.
type userConfig struct {
	// config is a cloud.conf, of which only userSections are used.
	config text
	// topology is "true" or "false" to override the zones, or "".
	topology text
	// ca is the PEM bundle of the CA of the cloud, for credentials that do not contain it.
	ca text
	// ignored lists what has no effect, with advice.
	ignored []string
}

// override returns the administrator's choice of topology, nil if there is none.
func (u userConfig) override() (*bool, error) {
	value, err := u.topology.read()
	chosen := parseBool(value)
	if err != nil || chosen != nil || strings.TrimSpace(value) == "" {
		return chosen, err
	}
	return nil, fmt.Errorf("%s is neither true nor false: set it to true or "+
		"false, or remove it so that the availability zones determine the topology", u.topology.source)
}

// parseBool returns nil for a text that is no value of enable_topology. Earlier operators passed
// the text to a flag, which accepts 1, t, 0 and f too.
func parseBool(text string) *bool {
	value, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(text)))
	if err != nil {
		return nil
	}
	return &value
}

// ignoredIn lists what has no effect in the ConfigMap for this driver, and what this ConfigMap
// overrides in the one with which the cluster was installed. The latter configures other components
// too, so most of it is not for this driver. The list contains no values: they may be passwords.
func ignoredIn(own, installed contents) []string {
	var found []string
	keys := slices.AppendSeq(slices.Collect(maps.Keys(own.data)), maps.Keys(own.binary))
	slices.Sort(keys)
	for _, key := range keys {
		if key != userConfigKey && key != userTopologyKey && key != choice.Key {
			found = append(found, fmt.Sprintf(
				"%s is ignored: only keys %s, %s and %s are read. Rename or remove it",
				own.text(key).source, userConfigKey, userTopologyKey, choice.Key))
		}
	}
	hidden := installed.text(userTopologyKey)
	if own.exists && own.text(userTopologyKey).value == "" && hidden.value != "" {
		found = append(found, fmt.Sprintf("%s is ignored because %s exists. Move the key there",
			hidden.source, own.source))
	}
	config := own.text(userConfigKey)
	for _, remark := range remarks([]byte(config.value)) {
		found = append(found, fmt.Sprintf("%s, line %d: %s", config.source, remark.Line, remark.Problem))
	}
	return found
}

// remarks lists what has no effect in a user's text. It returns nothing for an invalid text.
func remarks(user []byte) []SyntaxError {
	text, _ := driverText(user) // an invalid value has no effect on the other remarks
	if checkSyntax(text) != nil {
		return nil
	}
	var found []SyntaxError
	if line := firstOutside(user); line > 0 {
		found = append(found, SyntaxError{line, "this text is ignored: it precedes the first " +
			"[section], and only [" + userSection + "] and [" + metadataSection + "] are read. Move or " +
			"remove it"})
	}
	for _, e := range entriesOf(text) {
		problem := ""
		switch {
		case e.setting():
			problem, _ = e.remark() // its error is reported when cloud.conf is generated
		case e.isSearchOrder():
			problem = e.remarkAboutOrder()
		case e.section == metadataSection && e.name != "":
			problem = "this setting is ignored: the operator passes on only " + searchOrderKey +
				" of this section. Remove it"
		case e.section != "" && e.name != "":
			problem = devicePathKey + " is ignored: the CSI driver does not support it. Remove it"
		case e.name == "" && e.section == "":
			problem = "this section is ignored: only [" + userSection + "] and [" + metadataSection +
				"] are read. " + adviceAbout(e.text)
		}
		if problem != "" {
			found = append(found, SyntaxError{e.line, problem})
		}
	}
	return found
}

// adviceAbout returns what to do with a section that is not read. Some are for other components.
func adviceAbout(section string) string {
	for _, other := range []string{
		"Global", "LoadBalancer", "LoadBalancerClass", "Networking", "Route",
	} {
		if strings.EqualFold(section, other) {
			return "The operator and the CSI driver do not use it. Remove it"
		}
	}
	return "Correct its name or remove it"
}
