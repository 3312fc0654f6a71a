package clouds

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
)

// unsupported returns mistakes about fields that operator and driver would ignore although a login
// or its effect depends on them.
func (e *entry) unsupported(auth *clientconfig.AuthInfo) (mistakes []string) {
	const noClientCertificates = "client certificates are not supported; " +
		"use an application credential or a password"
	var refused []string
	refuse := func(given bool, name, advice string) {
		if given {
			refused = append(refused, e.at(name)+": "+advice)
		}
	}
	itself := e.name != "" && e.Cloud.Cloud == e.name
	refuse(e.Profile != "", "profile", "write the values of the profile into the entry")
	refuse(itself, "cloud", "it names the entry itself: remove this line")
	refuse(!itself && e.Cloud.Cloud != "", "cloud", "write the values of that cloud into the entry")
	refuse(e.ClientCertFile != "", "cert", noClientCertificates)
	refuse(e.ClientKeyFile != "", "key", noClientCertificates)
	refuse(slices.ContainsFunc(e.Regions, hasValues), "regions",
		"write the values of the region into the entry")
	refuse(!strings.HasPrefix(e.IdentityAPIVersion+"3", "3"), "identity_api_version",
		"only version 3 of the identity API is supported")
	refuse(auth.Token != "", "auth.token",
		"tokens expire; use an application credential or a password")
	refuse(auth.TrustID != "", "auth.trust_id",
		"trusts are not supported; use an application credential")
	refuse(auth.SystemScope != "", "auth.system_scope", "use a project")
	if !e.supportedType() {
		mistakes = append(mistakes, fmt.Sprintf("has the value %s at %s, which is not supported: %s",
			Printable(string(e.AuthType)), e.at("auth_type"), instead(string(e.AuthType))))
	}
	if len(refused) > 0 {
		mistakes = append(mistakes, "has fields that are not supported: "+strings.Join(refused, "; "))
	}
	return mistakes
}

func (e *entry) supportedType() bool {
	return slices.Contains([]clientconfig.AuthType{
		"", clientconfig.AuthPassword, clientconfig.AuthV3Password,
		clientconfig.AuthV3ApplicationCredential,
	}, e.AuthType)
}

// instead returns what to use in place of an auth_type.
func instead(kind string) string {
	const credential = "create an application credential and use v3applicationcredential"
	switch {
	case regexp.MustCompile("oidc|saml|adfs|kerb|fed|websso|oauth").MatchString(kind):
		return credential + ", which works for federated users too"
	case regexp.MustCompile("totp|multifactor").MatchString(kind):
		return credential + ", which needs no second factor"
	case strings.HasSuffix(kind, "token"):
		return "tokens expire; " + credential
	}
	return "use password, v3password or v3applicationcredential"
}

// hasValues returns true if the region overrides fields of the entry. Otherwise the list of regions
// has no effect, as in the drivers.
func hasValues(r clientconfig.Region) bool { return !reflect.ValueOf(r.Values).IsZero() }
