package manila

import (
	"cmp"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// authority is the CA of a cloud as the driver finds it. The zero value is none.
type authority struct {
	// pem is the CA, path the file that contains it in pods which run with this operator's manifests.
	pem, path string
}

// translate returns the content of the Secret that the Manila CSI driver reads, for a cloud and its CA. The keys, and which of them exclude each other or may not be empty, are those of the
// driver's own check: https://github.com/kubernetes/cloud-provider-openstack, docs/manila-csi-plugin/using-manila-csi-plugin.md.
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
		// The driver asks for os-domain* even where os-userDomain* say the same.
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
		// A login that the driver's explicit keys cannot express, but its reader of clouds.yaml can: a user by ID, who has no
		// domain; domains of which one is by ID and one by name; or an application credential by name, whose user the driver
		// takes only together with a password. That reader knows neither `interface` nor `verify`.
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
		// The driver prefers the path in its clouds.yaml to a CA in the Secret, and a path in the Secret to both.
		secret.set("os-certAuthorityPath", ca.path)
	} else {
		// Pods that an earlier release started mount no file with the CA of the credentials.
		secret.set("os-certAuthority", ca.pem)
	}
	return secret
}

// explicitPassword tells whether the entry has what the driver asks of a password login: a user by name in a domain, and a
// project. The driver takes os-domain* for the project's domain too, so a project by name has to have its domain in the same way.
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

// domain returns a domain by ID or by name, the other empty. What id and name leave open is what the entry says of all domains.
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

// secretData leaves out what is empty: the driver refuses keys without value.
type secretData map[string]string

func (s secretData) set(key, value string) {
	if value != "" {
		s[key] = value
	}
}
