package clouds

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
)

// remarks returns at most maxListed texts about keys without an effect, and about certificates that
// are not verified.
func (e *entry) remarks(l *Login) (remarks []string) {
	remark := func(given bool, name, text string) {
		if given {
			remarks = append(remarks, e.at(name)+" "+text)
		}
	}
	remark(l.Insecure, "verify", "is false: the certificates of OpenStack are not verified. "+
		"Write the CA of the cloud into key "+CAKey+" of the Secret and remove verify")
	remark(l.CA == "" && systemBundle(e.CACertFile), "cacert",
		"has no effect: the CAs of the system are used")
	remark(l.Password != "" && e.AuthType == clientconfig.AuthV3ApplicationCredential, "auth_type",
		"has no effect: the drivers log in with the password")
	remark(e.Interface != "" && strings.TrimSuffix(e.Interface, "URL") != l.Interface, "interface",
		"has no effect beside endpoint_type")
	remark(len(e.Regions) > 0 && l.Region == "", "regions", "has no effect: write region_name")
	read := slices.Concat(fields[clientconfig.AuthInfo](), fields[clientconfig.Cloud]())
	for i, k := range slices.Concat(e.auth, e.keys) {
		name := k.name
		if i < len(e.auth) {
			name = "auth." + name
		}
		mistake := mistakeInText(k.value.Value)
		remark(mistake != "" && slices.Contains(read, k.name), name, mistake)
	}
	for _, k := range e.unread() {
		remarks = append(remarks, k.path+k.String()+" has no effect: "+k.advice)
	}
	return remarks[:min(len(remarks), maxListed)]
}

const encrypted = "seems to be encrypted"

// placeholder matches what templates and people write in place of a part of a value.
var placeholder = regexp.MustCompile(`\{\{.*\}\}|\$\{.*\}|\$\(\w+\)|^\$OS_\w+|<[^<>]+>`)

// mistakeInText returns what a text seems to be in place of a value, "" for others. It is no error:
// OpenStack accepts such passwords and names.
func mistakeInText(value string) string {
	start := func(prefix string) bool { return strings.HasPrefix(value, prefix) }
	switch {
	case start("ENC["), start("$ANSIBLE_VAULT;"):
		return encrypted + ": write the decrypted value"
	case start("ref+"), start("vault:"), value != "" && placeholder.FindString(value) == value:
		return "seems to be a placeholder: write the value itself"
	case start("\u201c"), start("\u201d"), start("\u2018"), start("\u2019"):
		return "begins with a quotation mark of a word processor: write \" or ' around the value"
	}
	return ""
}
