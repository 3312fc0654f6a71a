package clouds

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// entry is an entry of clouds.yaml with the keys that messages name.
type entry struct {
	clientconfig.Cloud
	name string
	// top are the keys of the text, entries of clouds, keys of the entry, auth of its auth.
	top, entries, keys, auth []key
	// note is added to messages about an incomplete login.
	note string
	// faults is about values of a wrong type.
	faults string
}

// readEntry returns the entry DefaultEntry or the only one.
func readEntry(text []byte) (*entry, error) {
	file, root, faults, err := decode(text)
	if err != nil {
		return nil, err
	}
	found := file.Clouds
	top := mapping(position.Resolved(root))
	clouds := find(top, "clouds")
	entries := mapping(clouds.value)
	switch {
	case faults != "" && len(entries) == 0:
		return nil, errors.New(faults)
	case find(mapping(find(top, "sops").value), "mac").value != nil:
		return nil, errors.New(otherText(text))
	case clouds.value == nil:
		return nil, errors.New(otherTree(position.Resolved(root), text))
	case len(entries) == 0:
		top = slices.DeleteFunc(top, func(k key) bool { return k.name == clouds.name })
		return nil, fmt.Errorf("has no entries in %s: indent the entries below clouds%s",
			clouds, others("other keys are", top))
	}
	name := DefaultEntry
	if _, exists := found[name]; !exists && len(found) == 1 {
		name = slices.Collect(maps.Keys(found))[0]
	}
	cloud, exists := found[name]
	switch {
	case exists && (!utf8.ValidString(name) || strings.ContainsAny(name, "\x00\r")):
		return nil, fmt.Errorf("has an entry (line %d) whose name contains NUL, a carriage return or "+
			"bytes that are not UTF-8: rename it to %s", entries[0].line, DefaultEntry)
	case !exists && faults != "":
		return nil, errors.New(faults)
	case !exists:
		return nil, fmt.Errorf("has no entry clouds.%s: rename one of its entries to %[1]s: %s",
			DefaultEntry, list(entries))
	}
	keys := mapping(find(entries, name).value)
	auth := mapping(find(keys, "auth").value)
	if faults != "" && len(auth) == 0 {
		return nil, errors.New(faults)
	}
	return &entry{
		Cloud: cloud, name: name, top: top, entries: entries, keys: keys, auth: auth, faults: faults,
	}, nil
}

// missingAuth returns the error for an entry without auth.
func (e *entry) missingAuth() error {
	if e.name == "auth" || e.name == "clouds" {
		return fmt.Errorf("has %s directly below clouds: %s", find(e.entries, e.name), expected)
	}
	advice := ": add auth with auth_url and a login" + others("the keys there are", e.keys) + e.note
	for _, k := range slices.Backward(e.keys) {
		if slices.Contains(fields[clientconfig.AuthInfo](), k.name) {
			advice = fmt.Sprintf(": add auth above %s, and indent what belongs to it", k)
		}
	}
	for _, k := range e.keys {
		if position.Similar([]string{"auth"}, k.name) != "" {
			advice = fmt.Sprintf(": rename %s to auth", k)
		}
	}
	for _, k := range slices.Concat(e.entries, e.top) {
		if k.name == "auth" {
			advice = fmt.Sprintf(": indent %s below %s", k, e.path())
		}
	}
	if own := find(e.entries, e.name); own.empty() {
		return fmt.Errorf("has clouds.%s, which is %s%s", own, position.Shape(own.value), advice)
	}
	return fmt.Errorf("has no %s.auth%s%s", e.path(), lineOf(e.entries, e.name), advice)
}

// others returns a continuation of a message that names keys.
func others(introduction string, keys []key) string {
	if len(keys) == 0 {
		return ""
	}
	return "; " + introduction + " " + list(keys)
}

func (e *entry) path() string { return "clouds." + Printable(e.name) }

// at returns the path and the line of a key of the entry, such as "cacert" or "auth.token".
func (e *entry) at(name string) string {
	keys, last := e.keys, name
	if rest, below := strings.CutPrefix(name, "auth."); below {
		keys, last = e.auth, rest
	}
	return e.path() + "." + name + lineOf(keys, last)
}

// lineOf returns the line of a key as the end of a text, "" if the key is missing.
func lineOf(keys []key, name string) string {
	if k := find(keys, name); k.line > 0 {
		return fmt.Sprintf(" (line %d)", k.line)
	}
	return ""
}

// given returns those of the keys of auth that have a value.
func (e *entry) given(names ...string) []key {
	return slices.DeleteFunc(slices.Clone(e.auth), func(k key) bool {
		return k.empty() || !slices.Contains(names, k.name)
	})
}

// unread is a key that nothing reads.
type unread struct {
	key
	// path is the path above the key, meaning its right spelling, advice what to do with it.
	path, meaning, advice string
}

const noSuchKey = "auth has no such key"

// strangers names the keys of auth whose meaning is not known, as a continuation of a message.
func (e *entry) strangers() string {
	var keys []key
	for _, k := range e.unread() {
		if k.advice == noSuchKey {
			keys = append(keys, k.key)
		} else if k.value.Kind == yaml.MappingNode {
			return fmt.Sprintf("; %s is not read: %s", k.key, k.advice)
		}
	}
	return others("keys of auth that are not read are", keys)
}

// unread returns the keys that nothing reads although people expect an effect on the login, the
// endpoints or TLS.
func (e *entry) unread() (found []unread) {
	const most = 50 // to compare a key with those that exist costs more than to read it
	ofAuth, ofEntry := fields[clientconfig.AuthInfo](), fields[clientconfig.Cloud]()
	keys := slices.Concat(e.auth, e.keys)
	for i, k := range keys[:min(len(keys), most)] {
		path, here, there := e.path()+".auth.", ofAuth, ofEntry
		below := i < len(e.auth)
		if !below {
			path, here, there = e.path()+".", ofEntry, ofAuth
		}
		meaning := spelled(k.name, slices.Concat(here, there))
		var advice string
		switch {
		case k.empty(), slices.Contains(here, k.name):
			continue
		case slices.Contains(here, meaning):
			advice = "write " + meaning
		case slices.Contains(there, meaning) && below && meaning != "auth":
			advice = "write " + meaning + " beside auth"
		case slices.Contains(there, meaning) && !below:
			advice = fmt.Sprintf("indent line %d below auth", k.line)
			if meaning != k.name {
				advice += " and write " + meaning
			}
		case below && slices.ContainsFunc(mapping(k.value), func(inner key) bool {
			return slices.Contains(here, inner.name)
		}):
			advice = "write what is below it in its place, with less indentation"
		case below:
			advice = noSuchKey
		case overridesEndpoint(k.name):
			advice = "the endpoints of OpenStack's catalog are used"
		default:
			continue
		}
		if k.name == "insecure" {
			advice += ", with the opposite value"
		}
		found = append(found, unread{k, path, meaning, advice})
	}
	return found
}

// misplaced returns what to do with the first key that means one of the names but is not read, in
// the format, or "" if there is none.
func (e *entry) misplaced(format string, names ...string) string {
	for _, k := range e.unread() {
		if slices.Contains(names, k.meaning) {
			return fmt.Sprintf(format, fmt.Sprintf("%s is not read: %s", k.key, k.advice))
		}
	}
	return ""
}

// blank returns a note about the first of the keys of auth that has no value, "" if there is none.
func (e *entry) blank(names ...string) string {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
	for _, k := range e.auth {
		switch {
		case !slices.Contains(names, k.name) || !k.empty():
		case k.value.Style&quoted != 0, k.value.Value != "":
			return fmt.Sprintf(" (%s is %s)", k, position.Shape(k.value))
		default:
			return fmt.Sprintf(" (%s is empty: a value that begins with #, ! or & needs quotation marks)", k)
		}
	}
	return ""
}

// spelled returns the key of clouds.yaml that the name of a key means, or the name itself. The name
// may contain invisible characters.
func spelled(name string, known []string) string {
	const shortest = 5 // shorter names resemble many
	name = regexp.MustCompile("[^!-~]").ReplaceAllString(strings.ToLower(name), "")
	name = strings.TrimPrefix(strings.ReplaceAll(name, "-", "_"), "os_")
	name = strings.Replace(name, "tenant", "project", 1)
	meaning := map[string]string{
		"ca_file": "cacert", "domain": "user_domain_name", "id": "application_credential_id",
		"insecure": "verify", "project": "project_name", "region": "region_name",
		"secret": "application_credential_secret", "user": "username",
	}[name]
	if meaning == "" && !slices.Contains(known, name) && len(name) >= shortest {
		meaning = position.Similar(known, name)
	}
	return cmp.Or(meaning, name)
}

// overridesEndpoint returns true for keys such as volume_endpoint_override and compute_interface,
// with which openstacksdk selects the endpoints of a service.
func overridesEndpoint(name string) bool {
	return slices.ContainsFunc([]string{"_endpoint_override", "_interface", "_region_name"},
		func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}
