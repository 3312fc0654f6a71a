package cinder

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// text is a piece of configuration, and for messages about it the place that it is from and what to do if it cannot be used.
type text struct {
	value, place, fix string
	// binary says that the place contains something that is not text.
	binary bool
}

// or returns another text if there is nothing in this one.
func (t text) or(other text) text {
	if t.value == "" && !t.binary && (other.value != "" || other.binary) {
		return other
	}
	return t
}

// read returns the text.
func (t text) read() (string, error) {
	if t.binary {
		return "", t.unusable(errors.New("is binary data, not UTF-8 text"))
	}
	return t.value, nil
}

// readCA returns a CA bundle, "" if there is none.
func (t text) readCA() (string, error) {
	value, err := t.read()
	if err != nil || value == "" {
		return "", err
	}
	if err := openstack.CheckCA([]byte(value)); err != nil {
		return "", t.unusable(err)
	}
	return value, nil
}

// unusable is the error about a text. err reads on from the name of a place.
func (t text) unusable(err error) error {
	return fmt.Errorf("%s %w: %s; the driver keeps the configuration it has", t.place, err, t.fix)
}

// contents are those of a ConfigMap, empty for one that does not exist.
type contents struct {
	place  string
	exists bool
	data   map[string]string
	binary map[string][]byte
}

func (c contents) text(key string) text {
	_, binary := c.binary[key]
	return text{value: c.data[key], place: fmt.Sprintf("key %s of %s", key, c.place), fix: "correct it", binary: binary}
}

// userConfig is what the administrator asks for.
type userConfig struct {
	// config is a cloud.conf of which one section counts.
	config text
	// topology overrides what the zones say: "true" or "false", "" for what they say.
	topology text
	// ca is the PEM bundle of the cloud's CA, for clouds whose credentials do not bring it.
	ca text
	// ignored says what has no effect, and what to do about it.
	ignored []string
}

// override reads the administrator's word on topology; given is false where there is none.
func (u userConfig) override() (topology, given bool, err error) {
	value, err := u.topology.read()
	if err != nil {
		return false, false, err
	}
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "":
		return false, false, nil
	case "true":
		return true, true, nil
	case "false":
		return false, true, nil
	}
	return false, false, fmt.Errorf("%s is neither true nor false: correct it, or remove it to have the availability zones decide", u.topology.place)
}

// ignoredIn finds what has no effect in the ConfigMap made for this driver, and what it hides of the one that the cluster was
// installed with. The latter is written for others too, so that most of it is not for this driver. Values are not quoted: there may
// be passwords among them.
func ignoredIn(own, installed contents) []string {
	var found []string
	keys := slices.AppendSeq(slices.Collect(maps.Keys(own.data)), maps.Keys(own.binary))
	slices.Sort(keys)
	for _, key := range keys {
		if key != userConfigKey && key != userTopologyKey {
			found = append(found, fmt.Sprintf("%s is ignored: only keys %s and %s are read. Rename or remove it", own.text(key).place, userConfigKey, userTopologyKey))
		}
	}
	hidden := installed.text(userTopologyKey)
	if own.exists && own.text(userTopologyKey).value == "" && hidden.value != "" {
		found = append(found, fmt.Sprintf("%s is ignored because %s exists. Move the key there", hidden.place, own.place))
	}
	config := own.text(userConfigKey)
	for _, remark := range remarks([]byte(config.value)) {
		found = append(found, fmt.Sprintf("%s, line %d: %s", config.place, remark.Line, remark.Problem))
	}
	return found
}

// remarks finds what has no effect in a user's text. A text that cannot be used has none.
func remarks(user []byte) []SyntaxError {
	text := bytes.TrimPrefix(user, []byte(byteOrderMark))
	if checkSyntax(text) != nil {
		return nil
	}
	var found []SyntaxError
	for _, e := range entriesOf(text) {
		problem := ""
		switch {
		case e.setting():
			problem, _ = e.remark() // its error is reported when cloud.conf is generated
		case e.counts && e.name != "":
			problem = devicePathKey + " is ignored: the CSI driver does not know it. Remove it"
		case e.name == "" && !e.counts:
			problem = "this section is ignored: only [" + userSection + "] is read. Correct its name or remove it"
		}
		if problem != "" {
			found = append(found, SyntaxError{e.line, problem})
		}
	}
	return found
}
