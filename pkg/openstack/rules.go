package openstack

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// tokenError returns the error of a service that refuses the token of a new login. Services answer
// in this way if an access rule is missing: an application credential with access rules may send
// only the requests that they list.
func tokenError(service, endpoint string, a Access, err error) *Error {
	advice := "Check the project and its roles in " + TheSecret
	response, known := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if known && a.UsesApplicationCredential() {
		advice = fmt.Sprintf("If the application credential in %s has access rules, they must permit "+
			"%s %s. If not, ask the administrator of the cloud to check the service", TheSecret,
			response.Method, rulePath(endpoint, response.URL))
	}
	return errorf(AuthenticationFailed, "OpenStack's %s at %s refused the token (HTTP 401). %s",
		service, redactedURL(endpoint), advice)
}

var (
	// versionElement matches the path element of a URL that contains the version of the API.
	versionElement = regexp.MustCompile(`^v(\d+)(?:\.\d+)?$`)
	// resource matches the elements of paths that are not IDs.
	resource = regexp.MustCompile(`^[a-z_-]+$`)
)

// rulePath returns the path of an access rule for a request: from the version of the API on, with *
// in place of the project, which may be part of the URL of the service, and in place of IDs.
func rulePath(endpoint, requested string) string {
	elements, base := elementsOf(requested), len(elementsOf(endpoint))
	version := slices.IndexFunc(elements, versionElement.MatchString)
	var rule []string
	for i, element := range elements[max(version, 0):] {
		isFixed := i == 0 && version >= 0
		isProject := version >= 0 && version+i < base
		if !isFixed && (isProject || !resource.MatchString(element)) {
			element = "*"
		}
		rule = append(rule, element)
	}
	return "/" + strings.Join(rule, "/")
}

// elementsOf returns the elements of the path of a URL.
func elementsOf(raw string) []string {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	return strings.FieldsFunc(u.EscapedPath(), func(r rune) bool { return r == '/' })
}

// elsewhere returns whether the URL of a service contains another project than that of the token:
// the element behind the version.
func (a Access) elsewhere(endpoint string) bool {
	elements := elementsOf(endpoint)
	version := slices.IndexFunc(elements, versionElement.MatchString)
	return a.project != "" && version >= 0 && version+1 < len(elements) &&
		strings.TrimPrefix(elements[version+1], "AUTH_") != a.project
}
