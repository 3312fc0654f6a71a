package manila

import (
	"cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// translate returns the content of the Secret that the Manila CSI driver reads, for a cloud and the path at which the driver
// finds the cloud's CA ("" for none). The keys, and which of them exclude each other or may not be empty, are those of the
// driver's own check: https://github.com/kubernetes/cloud-provider-openstack, docs/manila-csi-plugin/using-manila-csi-plugin.md.
func translate(cloud *openstack.Cloud, caPath string) map[string]string {
	auth := cloud.AuthInfo
	secret := secretData{}
	switch {
	case cloud.UsesApplicationCredential():
		secret.oneOf("os-applicationCredentialID", auth.ApplicationCredentialID, "os-applicationCredentialName", auth.ApplicationCredentialName)
		secret.set("os-applicationCredentialSecret", auth.ApplicationCredentialSecret)
		if auth.ApplicationCredentialID == "" {
			secret.user(cloud)
		}
	case explicitPassword(cloud):
		secret.set("os-password", auth.Password)
		secret.user(cloud)
		secret.oneOf("os-projectID", auth.ProjectID, "os-projectName", auth.ProjectName)
		secret.oneOf("os-projectDomainID", cmp.Or(auth.ProjectDomainID, auth.DomainID),
			"os-projectDomainName", cmp.Or(auth.ProjectDomainName, auth.DomainName))
	default:
		// A login that the driver's explicit keys cannot express, but its reader of clouds.yaml can.
		secret.set("os-useClouds", "true")
		secret.set("os-cloud", cloud.Name)
		secret.set("os-cloudsFile", mountedClouds)
		secret.set("os-certAuthorityPath", caPath)
		return secret
	}
	secret.set("os-authURL", auth.AuthURL)
	secret.set("os-region", cloud.RegionName)
	if cloud.EndpointType != "" {
		secret.set("os-endpointType", cloud.Availability())
	}
	if cloud.Verify != nil && !*cloud.Verify {
		secret.set("os-TLSInsecure", "true")
	}
	secret.set("os-certAuthorityPath", caPath)
	return secret
}

// explicitPassword tells whether the entry has what the driver asks of a password login: a user by name in a domain, and a
// project.
func explicitPassword(cloud *openstack.Cloud) bool {
	a := cloud.AuthInfo
	domain := cmp.Or(a.UserDomainID, a.UserDomainName, a.DomainID, a.DomainName, a.DefaultDomain)
	return a.Username != "" && domain != "" && cmp.Or(a.ProjectID, a.ProjectName) != ""
}

// secretData leaves out what is empty: the driver refuses keys without value.
type secretData map[string]string

func (s secretData) set(key, value string) {
	if value != "" {
		s[key] = value
	}
}

// oneOf sets one of two keys that exclude each other, the first by precedence.
func (s secretData) oneOf(firstKey, first, secondKey, second string) {
	if first != "" {
		s.set(firstKey, first)
	} else {
		s.set(secondKey, second)
	}
}

// user sets the user and the domain it is in. The driver asks for os-domain* even where os-userDomain* say the same.
func (s secretData) user(cloud *openstack.Cloud) {
	a := cloud.AuthInfo
	s.oneOf("os-userName", a.Username, "os-userID", a.UserID)
	id := cmp.Or(a.UserDomainID, a.DomainID)
	name := cmp.Or(a.UserDomainName, a.DomainName)
	if id == "" && name == "" {
		id = a.DefaultDomain
	}
	s.oneOf("os-domainID", id, "os-domainName", name)
	s.oneOf("os-userDomainID", id, "os-userDomainName", name)
}
