package openstack

import (
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
)

// Login is an entry of clouds.yaml in which everything is explicit: operator and drivers log in
// with the same fields at the same endpoints. It contains a password or an application credential,
// never both.
type Login struct {
	// Entry is the name of the entry.
	Entry string
	// AuthURL is the URL of version 3 of the identity API, without a slash at its end.
	AuthURL                    string
	UserID, Username, Password string
	// UserDomain is the domain of Username. It is empty with UserID.
	UserDomain             Domain
	ProjectID, ProjectName string
	// ProjectDomain is the domain of ProjectName. It is empty with ProjectID.
	ProjectDomain Domain
	// With ApplicationCredentialName the login contains UserID, or Username and UserDomain.
	ApplicationCredentialID, ApplicationCredentialName, ApplicationCredentialSecret string
	Region                                                                          string
	// Interface is public, internal, admin, or empty for the default, which is public.
	Interface string
	// Insecure is true if certificates of servers are not verified.
	Insecure bool
	// CA is a bundle in PEM. Empty means the roots of the system.
	CA string
	// CAPath is the path in the entry. Nothing reads the file.
	CAPath string
	// Remarks are warnings: keys without an effect, and certificates that are not verified.
	Remarks []string
	// NoProject says what to do if the token has no project. It is empty if the login names a project
	// or is an application credential. Otherwise Keystone uses the user's default project, if any.
	NoProject string
}

// Domain is a domain by ID or by name, or the zero value for none.
type Domain struct{ ID, Name string }

// domain returns a domain by ID if both are given, as gophercloud does.
func domain(id, name string) Domain {
	if id != "" {
		return Domain{ID: id}
	}
	return Domain{Name: name}
}

// identityVersion is the last path element of identity API URLs.
const identityVersion = "/v3"

// identityURL returns the URL of version 3 of the identity API. It appends a missing version
// instead of reading the cloud's version document: that document could send the password to any
// host, and often names a host behind a proxy.
func identityURL(authURL string) string {
	base := strings.TrimRight(authURL, "/")
	if strings.HasSuffix(base, identityVersion) {
		return base
	}
	return base + identityVersion
}

// UsesApplicationCredential returns true for an application credential, false for a password.
func (l *Login) UsesApplicationCredential() bool { return l.ApplicationCredentialSecret != "" }

// AuthOptions returns the login as both drivers send it.
func (l *Login) AuthOptions() *gophercloud.AuthOptions {
	return &gophercloud.AuthOptions{
		IdentityEndpoint:            l.AuthURL,
		UserID:                      l.UserID,
		Username:                    l.Username,
		Password:                    l.Password,
		DomainID:                    l.UserDomain.ID,
		DomainName:                  l.UserDomain.Name,
		ApplicationCredentialID:     l.ApplicationCredentialID,
		ApplicationCredentialName:   l.ApplicationCredentialName,
		ApplicationCredentialSecret: l.ApplicationCredentialSecret,
		AllowReauth:                 true,
		Scope: &gophercloud.AuthScope{
			ProjectID:   l.ProjectID,
			ProjectName: l.ProjectName,
			DomainID:    l.ProjectDomain.ID,
			DomainName:  l.ProjectDomain.Name,
		},
	}
}

// CloudsYAML returns a clouds.yaml that contains this entry, without its CA.
func (l *Login) CloudsYAML() []byte {
	cloud := clientconfig.Cloud{
		RegionName:   l.Region,
		EndpointType: l.Interface,
		AuthInfo: &clientconfig.AuthInfo{
			AuthURL:                     l.AuthURL,
			UserID:                      l.UserID,
			Username:                    l.Username,
			Password:                    l.Password,
			UserDomainID:                l.UserDomain.ID,
			UserDomainName:              l.UserDomain.Name,
			ProjectID:                   l.ProjectID,
			ProjectName:                 l.ProjectName,
			ProjectDomainID:             l.ProjectDomain.ID,
			ProjectDomainName:           l.ProjectDomain.Name,
			ApplicationCredentialID:     l.ApplicationCredentialID,
			ApplicationCredentialName:   l.ApplicationCredentialName,
			ApplicationCredentialSecret: l.ApplicationCredentialSecret,
		},
	}
	if l.Insecure {
		cloud.Verify = new(bool)
	}
	var node yaml.Node
	// Encoding structures of texts never returns an error.
	_ = node.Encode(clientconfig.Clouds{Clouds: map[string]clientconfig.Cloud{l.Entry: cloud}})
	quote(&node)
	text, _ := yaml.Marshal(&node)
	return text
}

// quote quotes all texts below a node: an unquoted text can have another type for other readers.
func quote(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		quote(child)
	}
}
