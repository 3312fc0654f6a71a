package openstack

import (
	"fmt"
	"strings"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
)

// remarks returns at most maxListed texts about keys without an effect, and about certificates that
// are not verified.
func (e *entry) remarks(l *Login) (remarks []string) {
	for _, r := range []struct {
		given       bool
		key, remark string
	}{
		{
			l.Insecure, "verify", "is false: the certificates of OpenStack are not verified. Write the " +
				"CA of the cloud into key " + CAKey + " of the Secret and remove verify",
		},
		{
			l.CA == "" && systemBundle(e.CACertFile), "cacert",
			"has no effect: the CAs of the system are used",
		},
		{
			l.Password != "" && e.AuthType == clientconfig.AuthV3ApplicationCredential, "auth_type",
			"has no effect: the drivers log in with the password",
		},
		{
			e.Interface != "" && strings.TrimSuffix(e.Interface, "URL") != l.Interface, "interface",
			"has no effect beside endpoint_type",
		},
		{len(e.Regions) > 0 && l.Region == "", "regions", "has no effect: write region_name"},
	} {
		if r.given {
			remarks = append(remarks, e.at(r.key)+" "+r.remark)
		}
	}
	for _, k := range e.unread() {
		remarks = append(remarks, fmt.Sprintf("%s%s has no effect: %s", k.path, k.key, k.advice))
	}
	return remarks[:min(len(remarks), maxListed)]
}
