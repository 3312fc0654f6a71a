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
	for _, k := range e.unread() {
		remarks = append(remarks, k.path+k.String()+" has no effect: "+k.advice)
	}
	return remarks[:min(len(remarks), maxListed)]
}
