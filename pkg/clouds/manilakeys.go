package clouds

import (
	"errors"
	"maps"
)

// manilaFields returns the fields of the login by their keys in the Secret of the Manila CSI
// driver. The driver refuses keys without a value, and keys that contradict each other: see
// https://github.com/kubernetes/cloud-provider-openstack,
// docs/manila-csi-plugin/using-manila-csi-plugin.md.
func (l *Login) manilaFields() map[string]*string {
	return map[string]*string{
		"os-authURL":                     &l.AuthURL,
		"os-userID":                      &l.UserID,
		"os-userName":                    &l.Username,
		"os-password":                    &l.Password,
		"os-userDomainID":                &l.UserDomainID,
		"os-userDomainName":              &l.UserDomainName,
		"os-projectID":                   &l.ProjectID,
		"os-projectName":                 &l.ProjectName,
		"os-projectDomainID":             &l.ProjectDomainID,
		"os-projectDomainName":           &l.ProjectDomainName,
		"os-applicationCredentialID":     &l.ApplicationCredentialID,
		"os-applicationCredentialName":   &l.ApplicationCredentialName,
		"os-applicationCredentialSecret": &l.ApplicationCredentialSecret,
		"os-region":                      &l.Region,
		"os-endpointType":                &l.Interface,
		"os-certAuthority":               &l.CA,
	}
}

// ManilaKeys returns the data of the Secret that the Manila CSI driver reads. Drivers before 1.34
// also require os-domain* for a password, and accept neither a user by ID, an application
// credential by name, a login without a project, nor one without a region.
func (l *Login) ManilaKeys() map[string]string {
	keys := map[string]string{}
	for name, value := range l.manilaFields() {
		keys[name] = *value
	}
	if l.Insecure {
		keys["os-TLSInsecure"] = "true"
	}
	if l.generalDomain() {
		keys["os-domainID"], keys["os-domainName"] = l.UserDomainID, l.UserDomainName
	}
	maps.DeleteFunc(keys, func(_, value string) bool { return value == "" })
	return keys
}

// generalDomain returns true if the keys os-domain* can repeat the domain of the user. The driver
// uses them as the domain of a user by ID too, which Keystone refuses; as the scope if there is no
// project; and an ID, which precedes a name, as the domain of the project.
func (l *Login) generalDomain() bool {
	return l.Password != "" && l.Username != "" && (l.ProjectID != "" || l.ProjectName != "") &&
		(l.UserDomainID == "" || l.ProjectDomainName == "")
}

// LoginOfManilaKeys returns the login of which ManilaKeys returned the keys, without the name of
// the entry. The text of an error follows the name of the Secret.
func LoginOfManilaKeys(keys map[string]string) (*Login, error) {
	l := &Login{Insecure: keys["os-TLSInsecure"] == "true"}
	for name, field := range l.manilaFields() {
		*field = keys[name]
	}
	switch {
	case l.AuthURL == "":
		return nil, errors.New("has no key os-authURL")
	case l.Password == "" && !l.UsesApplicationCredential():
		return nil, errors.New("has neither key os-password nor os-applicationCredentialSecret")
	}
	return l, nil
}
