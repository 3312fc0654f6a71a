package clouds

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// remarks returns at most maxListed texts about keys without an effect and unverified certificates.
func (e *entry) remarks(l *Login) (remarks []string) {
	remark := func(given bool, name, text string) {
		if given {
			remarks = append(remarks, e.at(name)+" "+text)
		}
	}
	remark(l.Insecure, "verify", "is false: the certificates of OpenStack are not verified. "+
		"Write the CA of the cloud into key "+CAKey+" of the Secret and remove verify")
	hexadecimal := regexp.MustCompile(`^[0-9a-f]{32}$`)
	remark(hexadecimal.MatchString(l.ApplicationCredentialSecret) && l.ApplicationCredentialID != "" &&
		!hexadecimal.MatchString(l.ApplicationCredentialID), "auth.application_credential_id",
		"seems to be the secret, and application_credential_secret the ID: exchange them")
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
		mistake := k.mistake()
		remark(mistake != "" && slices.Contains(read, k.name), name, mistake)
	}
	for _, k := range e.unread() {
		remarks = append(remarks, k.path+k.String()+" has no effect: "+k.advice)
	}
	return remarks[:min(len(remarks), maxListed)]
}

// mistake returns what is wrong with a value that drivers accept, "" for nothing.
func (k key) mistake() string {
	const write = ": write the value itself"
	value := k.value.Value
	tag := k.value.Tag
	switch shape := position.Placeholder(value); {
	case k.value.Kind == yaml.ScalarNode && k.empty():
		return "is " + position.Shape(k.value) + ", which has no effect: write a value, or remove it"
	case shape != "":
		return "seems to be " + shape + write
	case strings.HasPrefix(tag, "!") && !strings.HasPrefix(tag, "!!"):
		return "begins with !, so that YAML drops its first word: write quotation marks around it"
	case position.SmartQuoted(value):
		return "begins with a quotation mark of a word processor: write \" or ' around the value"
	case k.value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 && k.name != "cacert" &&
		strings.Contains(value, "\n"):
		return "contains a line break, which counts: write it in one line, without |"
	}
	return ""
}
