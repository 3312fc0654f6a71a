package cinder

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

func read(k cluster.Key) (string, error) {
	text, err := k.Text()
	if err != nil {
		err = unusable(err)
	}
	return text, err
}

// unusable adds to the error about a part of the configuration, which names its source, what to do.
func unusable(err error) error {
	return fmt.Errorf("%w: correct it; the driver keeps its present configuration", err)
}

// contents is a ConfigMap, nil if it does not exist, with its name for messages.
type contents struct {
	*corev1.ConfigMap

	name string
	key  func(string) cluster.Key
}

// userConfig is the configuration of the administrator.
type userConfig struct {
	// config is a cloud.conf, of which only userSections are used.
	config cluster.Key
	// topology is "true" or "false" to override the zones, or "". on and off are the values of its
	// source.
	topology cluster.Key
	on, off  string
	// ca is the PEM bundle of the CA of the cloud, for credentials that do not contain it.
	ca cluster.Key
	// ignored lists what has no effect, with advice.
	ignored []string
}

// override returns the administrator's choice of topology, nil if there is none.
func (u userConfig) override() (*bool, error) {
	value, err := read(u.topology)
	chosen := parseBool(value)
	if err != nil || chosen != nil || strings.TrimSpace(value) == "" {
		return chosen, err
	}
	return nil, fmt.Errorf("%s is neither true nor false: set it to true or "+
		"false, or remove it so that the availability zones determine the topology", u.topology.Source)
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
	existing := ptr.Deref(own.ConfigMap, corev1.ConfigMap{})
	keys := slices.AppendSeq(slices.Collect(maps.Keys(existing.Data)), maps.Keys(existing.BinaryData))
	slices.Sort(keys)
	for _, key := range keys {
		if key != userConfigKey && key != userTopologyKey && key != choice.Key {
			found = append(found, fmt.Sprintf(
				"%s is ignored: only keys %s, %s and %s are read. Rename or remove it",
				own.key(key).Source, userConfigKey, userTopologyKey, choice.Key))
		}
	}
	hidden := installed.key(userTopologyKey)
	if own.ConfigMap != nil && own.key(userTopologyKey).Value == "" && hidden.Value != "" {
		found = append(found, fmt.Sprintf("%s is ignored because %s exists. Move the key there",
			hidden.Source, own.name))
	}
	config := own.key(userConfigKey)
	for _, remark := range remarks([]byte(config.Value)) {
		found = append(found, fmt.Sprintf("%s, line %d: %s", config.Source, remark.Line, remark.Problem))
	}
	return found
}

// remarks lists what has no effect in a user's text. It returns nothing for an invalid text.
func remarks(user []byte) []SyntaxError {
	const most = 20             // a condition shows fewer
	text, _ := driverText(user) // an invalid value has no effect on the other remarks
	if checkSyntax(text) != nil {
		return nil
	}
	var found []SyntaxError
	if line := firstOutside(user); line > 0 {
		found = append(found, SyntaxError{line, "this text is ignored: it precedes the first " +
			"[section], and only [" + userSection + "] and [" + metadataSection + "] are read. Move or " +
			"remove it"})
		if other := otherFile(user); other != nil {
			found[0] = SyntaxError{other.Line, "this text is ignored: " + other.Problem}
		} else if !slices.ContainsFunc(entriesOf(text), func(e entry) bool { return e.name == "" }) {
			found[0].Problem = "this text is ignored: it has no [section]: " + consists + strange(user)
		}
	}
	lines := map[string]int{}
	for _, e := range entriesOf(text) {
		if len(found) == most {
			break
		}
		problem := ""
		before := lines[e.section+e.name]
		lines[e.section+e.name] = e.line
		switch {
		case e.setting() && before > 0:
			problem = fmt.Sprintf("%s repeats line %d, and only the last one counts. Remove one of the two",
				e.printed(), before)
		case e.setting():
			problem, _ = e.remark() // its error is reported when cloud.conf is generated
			if problem == unsupported {
				problem += similar(e.name)
			}
		case e.section == "" && slices.Contains(knownSettings(), e.name):
			problem = e.name + " is ignored in this section. Move it to [" + userSection + "]"
		case e.isSearchOrder():
			problem = e.remarkAboutOrder()
		case e.section == metadataSection && e.name != "":
			problem = "this setting is ignored: the operator passes on only " + searchOrderKey +
				" of this section. Remove it"
		case e.section != "" && e.name != "":
			problem = devicePathKey + " is ignored: the CSI driver does not support it. Remove it"
		case e.name == "" && e.section == "":
			problem = "this section is ignored: only [" + userSection + "] and [" + metadataSection +
				"] are read. " + adviceAbout(e)
		}
		if problem != "" {
			found = append(found, SyntaxError{e.line, problem})
		}
	}
	return found
}

// adviceAbout returns what to do with a section that is not read. Some are for other components.
func adviceAbout(header entry) string {
	section := header.text
	plain := strings.NewReplacer("-", "", "_", "", " ", "").Replace(section)
	for _, own := range userSections() {
		switch {
		case strings.EqualFold(section, own):
			return "Write [" + own + "], without a name in quotation marks"
		case position.Similar([]string{strings.ToLower(own)}, strings.ToLower(plain)) != "":
			return "Did you mean [" + own + "]?"
		}
	}
	for _, other := range []string{
		"Global", "LoadBalancer", "LoadBalancerClass", "Networking", "Route",
	} {
		if strings.EqualFold(section, other) {
			return "The operator and the CSI driver do not use it. Remove it"
		}
	}
	return "Correct its name or remove it"
}
