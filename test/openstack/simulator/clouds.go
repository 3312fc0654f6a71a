package simulator

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Auth is a way to log in.
type Auth string

// The ways to log in.
const (
	// Password is user name and password, with project and domains by name.
	Password Auth = "password"
	// ApplicationCredential is an application credential by ID.
	ApplicationCredential Auth = "application-credential"
	// NamedApplicationCredential is an application credential by name and user.
	NamedApplicationCredential Auth = "application-credential-name"
)

// Clouds describes a clouds.yaml. The zero value is a cloud "openstack" with a password and the
// default region.
type Clouds struct {
	// Cloud is the name of the entry, "openstack" if empty.
	Cloud string `json:"cloud,omitempty"`
	// Auth is the way to log in, Password if empty.
	Auth Auth `json:"auth,omitempty"`
	// Region is the region_name; the default region if empty.
	Region string `json:"region,omitempty"`
	// NoRegion leaves region_name out.
	NoRegion bool `json:"noRegion,omitempty"`
	// CACert is the path of a CA file to name as cacert; none if empty.
	CACert string `json:"cacert,omitempty"`
}

// setting is one line of YAML; the value is written as a JSON string, which is a YAML string too.
type setting struct{ key, value string }

// render writes the file.
func (o Clouds) render(info Info, credentials Credentials) (string, error) {
	setDefault(&o.Cloud, "openstack")
	setDefault(&o.Auth, Password)
	setDefault(&o.Region, info.Regions[0])
	kind, settings, err := o.login(credentials)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString("clouds:\n")
	fmt.Fprintf(&text, "  %s:\n", quote(o.Cloud))
	text.WriteString("    auth:\n")
	for _, line := range append([]setting{{"auth_url", info.AuthURL}}, settings...) {
		fmt.Fprintf(&text, "      %s: %s\n", line.key, quote(line.value))
	}
	fmt.Fprintf(&text, "    auth_type: %s\n", quote(kind))
	if !o.NoRegion {
		fmt.Fprintf(&text, "    region_name: %s\n", quote(o.Region))
	}
	if o.CACert != "" {
		fmt.Fprintf(&text, "    cacert: %s\n", quote(o.CACert))
	}
	text.WriteString("    identity_api_version: 3\n    interface: public\n")
	return text.String(), nil
}

// login returns the auth_type and the lines of the auth section.
func (o Clouds) login(c Credentials) (string, []setting, error) {
	switch o.Auth {
	case Password:
		return "password", []setting{
			{"username", c.UserName},
			{"password", c.Password},
			{"user_domain_name", c.DomainName},
			{"project_name", c.ProjectName},
			{"project_domain_name", c.DomainName},
		}, nil
	case ApplicationCredential:
		return "v3applicationcredential", []setting{
			{"application_credential_id", c.ApplicationCredentialID},
			{"application_credential_secret", c.ApplicationCredentialSecret},
		}, nil
	case NamedApplicationCredential:
		return "v3applicationcredential", []setting{
			{"application_credential_name", c.ApplicationCredentialName},
			{"application_credential_secret", c.ApplicationCredentialSecret},
			{"username", c.UserName},
			{"user_domain_name", c.DomainName},
		}, nil
	}
	return "", nil, fmt.Errorf("unknown way to log in %q, want %s, %s or %s",
		o.Auth, Password, ApplicationCredential, NamedApplicationCredential)
}

// quote writes a string so that YAML reads it unchanged.
func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(quoted)
}
