package clouds

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// checkURL returns an error for an auth_url that is there and no client accepts.
func (e *entry) checkURL(authURL string) error {
	const example = "https://keystone.example.com:5000/v3"
	at := e.at("auth.auth_url")
	u, err := url.Parse(authURL)
	switch {
	case authURL == "":
		return nil
	case position.Placeholder(authURL) != "", position.FilledIn(authURL),
		strings.ContainsAny(authURL, "<>"):
		return fmt.Errorf("has %s at %s: write the http or https URL of the identity service, such as "+
			"%s", cmp.Or(position.Placeholder(authURL), "a placeholder"), at, example)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		highPort(u.Port()):
		return fmt.Errorf("has an invalid %s: %suse an http or https URL, such as %s", at,
			mistakeInURL(authURL), example)
	case strings.HasSuffix(gophercloud.NormalizeURL(authURL), "/v2.0/"):
		return fmt.Errorf("has %s of version 2.0 of the identity API: use version 3, such as %s", at,
			example)
	}
	return nil
}

// highPort returns true for a port that does not exist.
func highPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return port != "" && err != nil
}

// mistakeInURL returns the start of a sentence about a text that is no URL, "" if unknown.
func mistakeInURL(text string) string {
	scheme, rest, _ := strings.Cut(text, "://")
	host, _, _ := strings.Cut(rest, "/")
	strange := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
	switch {
	case strange >= 0:
		char, _ := utf8.DecodeRuneInString(text[strange:])
		return "it contains " + position.Character(char) + "; "
	case !slices.Contains([]string{"http", "https"}, strings.ToLower(scheme)):
		return "it does not begin with http:// or https://; "
	case strings.Count(host, ":") > 1 && !strings.ContainsAny(host, "@["):
		return "an address of IPv6 needs brackets, as in http://[fd00::5]:5000/v3; "
	case host != "":
		return "its host or its port does not exist; "
	}
	return ""
}
