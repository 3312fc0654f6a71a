package manila

import (
	"cmp"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// authority is the CA of a cloud. The zero value is none.
type authority struct {
	// pem is the CA, path the file that contains it in the pods of this operator.
	pem, path string
}

// translate returns the data of the Secret that the Manila CSI driver reads, for a cloud and its
// CA. The driver validates the keys, which exclude each other and may not be empty: see
// https://github.com/kubernetes/cloud-provider-openstack,
// docs/manila-csi-plugin/using-manila-csi-plugin.md.
func translate(cloud *openstack.Cloud, ca authority) map[string]string {
	auth := cloud.AuthInfo
	secret := secretData{}
	switch {
	case auth.ApplicationCredentialID != "":
		secret.set("os-authURL", auth.AuthURL)
		secret.set("os-applicationCredentialID", auth.ApplicationCredentialID)
		secret.set("os-applicationCredentialSecret", auth.ApplicationCredentialSecret)
	case explicitPassword(cloud):
		secret.set("os-authURL", auth.AuthURL)
		secret.set("os-password", auth.Password)
		secret.set("os-userName", auth.Username)
		id, name := userDomain(auth)
		// The driver requires os-domain* even if os-userDomain* contain the same.
		secret.set("os-domainID", id)
		secret.set("os-domainName", name)
		secret.set("os-userDomainID", id)
		secret.set("os-userDomainName", name)
		if auth.ProjectID != "" {
			secret.set("os-projectID", auth.ProjectID)
			break // an ID needs no domain
		}
		id, name = projectDomain(auth)
		secret.set("os-projectName", auth.ProjectName)
		secret.set("os-projectDomainID", id)
		secret.set("os-projectDomainName", name)
	default:
		// The keys of the driver cannot express this login, but its reader of clouds.yaml can: a user by
		// ID, without a domain; two domains of which one is by ID and one by name; or an application
		// credential by name, whose user the driver accepts only with a password. That reader does not
		// support `interface` and `verify`.
		secret.set("os-useClouds", "true")
		secret.set("os-cloud", cloud.Name)
		secret.set("os-cloudsFile", mountedClouds)
	}
	secret.set("os-region", cloud.RegionName)
	if cloud.EndpointType != "" {
		secret.set("os-endpointType", cloud.Availability())
	}
	if cloud.Verify != nil && !*cloud.Verify {
		secret.set("os-TLSInsecure", "true")
	}
	if secret["os-useClouds"] != "" && cloud.CACertFile != "" {
		// The driver prefers the path in its clouds.yaml to a CA in the Secret, and a path in the Secret
		// to both.
		secret.set("os-certAuthorityPath", ca.path)
	} else {
		// Pods of an earlier release do not mount a file with the CA of the credentials.
		secret.set("os-certAuthority", ca.pem)
	}
	return secret
}

// explicitPassword returns true if the entry contains what the driver requires of a password login:
// a user by name in a domain, and a project. The driver uses os-domain* for the project too, so the
// domain of a project by name must have the same form.
func explicitPassword(cloud *openstack.Cloud) bool {
	a := cloud.AuthInfo
	userID, userName := userDomain(a)
	projectID, _ := projectDomain(a)
	switch {
	case cloud.UsesApplicationCredential(), a.Username == "", userID == "" && userName == "":
		return false
	case a.ProjectID != "":
		return true
	}
	return a.ProjectName != "" && (userID == "") == (projectID == "")
}

func userDomain(a *clientconfig.AuthInfo) (id, name string) {
	return domain(a, a.UserDomainID, a.UserDomainName)
}

func projectDomain(a *clientconfig.AuthInfo) (id, name string) {
	return domain(a, a.ProjectDomainID, a.ProjectDomainName)
}

// domain returns a domain by ID or by name; the other result is empty. The defaults of the entry
// replace an empty id and name.
func domain(a *clientconfig.AuthInfo, id, name string) (string, string) {
	id, name = cmp.Or(id, a.DomainID), cmp.Or(name, a.DomainName)
	switch {
	case id != "":
		return id, ""
	case name != "":
		return "", name
	}
	return a.DefaultDomain, ""
}

// secretData omits empty values: the driver rejects keys without a value.
type secretData map[string]string

func (s secretData) set(key, value string) {
	if value != "" {
		s[key] = value
	}
}
