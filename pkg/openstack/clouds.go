package openstack

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
)

// DefaultCloud is the entry of clouds.yaml that the cloud credential operator writes.
const DefaultCloud = "openstack"

// Cloud is one entry of a clouds.yaml, checked for what a login needs.
type Cloud struct {
	clientconfig.Cloud
	// Name is the entry's.
	Name string
}

// ParseClouds reads the entry named cloud from the text of a clouds.yaml. When there is no such entry but exactly one other,
// that one is taken: HyperShift lets its users name the entry. Errors name the line or the field, never a value.
func ParseClouds(text []byte, cloud string) (*Cloud, error) {
	var file clientconfig.Clouds
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("is not valid YAML of the clouds.yaml format%s", yamlLines(err))
	}
	ret, err := chooseCloud(file.Clouds, cloud)
	if err != nil {
		return nil, err
	}
	if ret.EndpointType == "" {
		ret.EndpointType = ret.Interface
	}
	return ret, ret.validate()
}

func chooseCloud(clouds map[string]clientconfig.Cloud, name string) (*Cloud, error) {
	if entry, ok := clouds[name]; ok {
		return &Cloud{Cloud: entry, Name: name}, nil
	}
	if len(clouds) == 1 {
		for other, only := range clouds {
			return &Cloud{Cloud: only, Name: other}, nil
		}
	}
	return nil, fmt.Errorf("has no entry clouds.%s", name)
}

// validate reports every fault of the entry at once.
func (c *Cloud) validate() error {
	if c.AuthInfo == nil {
		return fmt.Errorf("has no clouds.%s.auth", c.Name)
	}
	var missing []string
	if c.AuthInfo.AuthURL == "" {
		missing = append(missing, "auth_url")
	}
	if c.UsesApplicationCredential() {
		if c.AuthInfo.ApplicationCredentialSecret == "" {
			missing = append(missing, "application_credential_secret")
		}
	} else {
		if c.AuthInfo.Username == "" && c.AuthInfo.UserID == "" {
			missing = append(missing, "username or user_id (or application_credential_id)")
		}
		if c.AuthInfo.Password == "" {
			missing = append(missing, "password")
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("lacks in clouds.%s.auth: %s", c.Name, strings.Join(missing, ", "))
	}
	if !slices.Contains([]string{"", "public", "internal", "admin"}, c.Availability()) {
		return fmt.Errorf("has an unknown clouds.%s.interface: want public, internal or admin", c.Name)
	}
	if u, err := url.Parse(c.AuthInfo.AuthURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("has in clouds.%s.auth an auth_url that is no http or https URL", c.Name)
	}
	_, err := c.authOptions()
	return err
}

// UsesApplicationCredential tells application-credential entries from password entries.
func (c *Cloud) UsesApplicationCredential() bool {
	return c.AuthInfo.ApplicationCredentialID != "" || c.AuthInfo.ApplicationCredentialName != ""
}

// Availability is the interface whose endpoints to use, "" for the default. It drops the suffix that older files carry: publicURL is public.
func (c *Cloud) Availability() string {
	return strings.TrimSuffix(c.EndpointType, "URL")
}

// authOptions is what gophercloud logs in with.
func (c *Cloud) authOptions() (*gophercloud.AuthOptions, error) {
	auth := *c.AuthInfo
	opts, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{
		// Without a prefix that nobody sets, the ambient OS_* variables would fill gaps of the file.
		EnvPrefix: "CSI_OPERATOR_UNUSED_",
		AuthInfo:  &auth,
		AuthType:  c.AuthType,
	})
	if err != nil {
		return nil, fmt.Errorf("holds in clouds.%s.auth nothing to log in with", c.Name)
	}
	opts.AllowReauth = true
	scope, err := opts.ToTokenV3ScopeMap()
	if err == nil {
		_, err = opts.ToTokenV3CreateMap(scope)
	}
	if err != nil { // gophercloud's words name fields, never values
		return nil, fmt.Errorf("holds in clouds.%s.auth no login that is complete and free of contradictions: %w", c.Name, err)
	}
	return opts, nil
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)

// yamlLines keeps the line numbers of a YAML error and drops the rest, which quotes the text.
func yamlLines(err error) string {
	faults := []string{err.Error()}
	var mismatch *yaml.TypeError
	if errors.As(err, &mismatch) {
		faults = mismatch.Errors
	}
	var lines []string
	for _, fault := range faults {
		if m := yamlLine.FindStringSubmatch(fault); m != nil && !slices.Contains(lines, m[1]) {
			lines = append(lines, m[1])
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return " (line " + strings.Join(lines, ", ") + ")"
}
