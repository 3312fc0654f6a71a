package clouds

import (
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
	secret := "auth.password"
	if l.UsesApplicationCredential() {
		secret = "auth.application_credential_secret"
	}
	mistake := mistakeInSecret(l.Password + l.ApplicationCredentialSecret) // one of them is empty
	remark(mistake != "", secret, mistake)
	for _, k := range e.unread() {
		remarks = append(remarks, k.path+k.String()+" has no effect: "+k.advice)
	}
	return remarks[:min(len(remarks), maxListed)]
}

// mistakeInSecret returns what a text seems to be in place of a secret, "" for others. It is no
// error: OpenStack accepts such passwords.
func mistakeInSecret(value string) string {
	start := func(prefix string) bool { return strings.HasPrefix(value, prefix) }
	switch {
	case start("ENC["), start("$ANSIBLE_VAULT;"):
		return "seems to be encrypted: write the decrypted value"
	case start("<") && strings.HasSuffix(value, ">"), start("${") && strings.HasSuffix(value, "}"):
		return "seems to be a placeholder: write the value itself"
	case start("\u201c"), start("\u201d"), start("\u2018"), start("\u2019"):
		return "begins with a quotation mark of a word processor: write \" or ' around the value"
	}
	return ""
}
