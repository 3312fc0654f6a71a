// Package clouds reads clouds.yaml and the CA beside it, as the CSI drivers do, into an explicit
// login, which it also writes in the formats of both drivers. It sends no request. Its callers are
// pkg/credential, pkg/openstack and the driver plugins.
package clouds

import (
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
)

// Login is an entry of clouds.yaml in which everything is explicit: operator and drivers log in
// with the same fields at the same endpoints.
type Login struct {
	// Entry is the name of the entry.
	Entry string
	// AuthInfo contains either a password or an application credential, and each user, project and
	// domain either by ID or by name. The domain of the user is empty with UserID, that of the project
	// with ProjectID. AuthURL is the URL of version 3 of the identity API, without a slash at its end.
	clientconfig.AuthInfo

	Region string
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

// identityVersion is the last path element of identity API URLs.
const identityVersion = "/v3"

// identityURL returns the URL of version 3 of the identity API for an auth_url. As in the drivers,
// an auth_url that ends with the version, without a space behind it, is that URL, and otherwise the
// version follows what precedes the first version in the path. Unlike the drivers, it does not read
// the version document of the cloud: that document could send the password to any host, and often
// names a host behind a proxy.
func identityURL(authURL string) string {
	plain := strings.TrimSuffix(strings.TrimSpace(authURL), "/")
	base, err := utils.BaseEndpoint(plain)
	if err != nil || strings.HasSuffix(strings.TrimSuffix(authURL, "/"), identityVersion) {
		return plain
	}
	base, _, _ = strings.Cut(base, "?") // BaseEndpoint keeps the mark of an empty query
	return strings.TrimRight(base, "/") + identityVersion
}

// UsesApplicationCredential returns true for an application credential, false for a password.
func (l *Login) UsesApplicationCredential() bool { return l.ApplicationCredentialSecret != "" }

// AuthOptions returns the login as both drivers send it.
func (l *Login) AuthOptions() *gophercloud.AuthOptions {
	auth := l.AuthInfo
	options := fill(&auth)
	options.IdentityEndpoint, options.AllowReauth = l.AuthURL, true
	return options
}

// CloudsYAML returns a clouds.yaml that contains this entry, without its CA.
func (l *Login) CloudsYAML() []byte {
	cloud := clientconfig.Cloud{
		RegionName: l.Region, EndpointType: l.Interface, AuthInfo: &l.AuthInfo,
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
