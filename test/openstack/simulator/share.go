package simulator

import (
	"net/http"
	"strings"
)

// share answers a call to Manila.
func (s *Simulator) share(c *call) reply {
	switch c.path {
	case "/":
		return s.shareVersions(c, http.StatusMultipleChoices)
	case "/v2":
		return s.shareVersions(c, http.StatusOK)
	}
	resource, ok := s.resource(c, "/v2")
	if !ok {
		return s.failure(c, http.StatusNotFound, "The resource could not be found.")
	}
	if !s.keystone.valid(c.header.Get(headerAuthToken)) {
		return s.failure(c, http.StatusUnauthorized, textAuthenticate)
	}
	version, refusal := s.negotiate(c)
	if refusal != nil {
		return *refusal
	}
	answer := s.shareTypes(c, resource, version)
	if answer.header == nil {
		answer.header = http.Header{}
	}
	answer.header[headerManilaVersion] = []string{version.String()}
	answer.header["Vary"] = []string{headerManilaVersion}
	return answer
}

// resource is the path below the version, without the project ID that some clouds put between.
func (s *Simulator) resource(c *call, version string) (string, bool) {
	rest, ok := strings.CutPrefix(c.path, version+"/")
	if !ok {
		return "", false
	}
	return strings.TrimPrefix(rest, s.keystone.current().ProjectID+"/"), true
}

// negotiate finds the microversion to answer with: the lowest without a header, an error for one
// out of range.
func (s *Simulator) negotiate(c *call) (microversion, *reply) {
	lowest, highest := microversion{2, 0}, s.manila.highest
	wanted := c.header.Get(headerManilaVersion)
	switch wanted {
	case "":
		return lowest, nil
	case "latest":
		return highest, nil
	}
	version, err := parseMicroversion(wanted)
	if err != nil {
		refusal := s.failure(c, http.StatusBadRequest, err.Error())
		return version, &refusal
	}
	if !version.atLeast(lowest) || !highest.atLeast(version) {
		refusal := s.failure(c, http.StatusNotAcceptable,
			"Version "+wanted+" is not supported by the API. Minimum is "+lowest.String()+
				" and maximum is "+highest.String()+".")
		return version, &refusal
	}
	return version, nil
}

// shareVersions answers the version documents; the one of the root offers the dead v1 as well.
func (s *Simulator) shareVersions(c *call, status int) reply {
	describe := func(id, status, path, low, high string) map[string]any {
		return map[string]any{
			"id": id, "status": status, "version": high, "min_version": low,
			"updated": "2015-08-27T11:33:21Z",
			"links":   []any{map[string]string{"rel": "self", "href": s.endpoint(Share, c.region) + path}},
			"media-types": []any{map[string]string{
				"base": "application/json", "type": "application/vnd.openstack.share+json;version=1",
			}},
		}
	}
	versions := []any{describe("v2.0", "CURRENT", "/v2/", manilaMinimum, s.manila.highest.String())}
	if status == http.StatusMultipleChoices {
		versions = append([]any{describe("v1.0", "DEPRECATED", "/v1/", "", "")}, versions...)
	}
	return document(status, map[string]any{"versions": versions})
}

// shareTypes handles the requests about share types that a normal user may send.
func (s *Simulator) shareTypes(c *call, resource string, version microversion) reply {
	elements := strings.Split(resource, "/")
	if elements[0] != "types" || len(elements) > 3 {
		return s.failure(c, http.StatusNotFound, "The resource could not be found.")
	}
	if c.method != http.MethodGet && c.method != http.MethodHead {
		return s.failure(c, http.StatusForbidden, "Policy doesn't allow share_type to be changed.")
	}
	if len(elements) == 1 {
		views := []any{}
		for _, shareType := range s.manila.visible() {
			views = append(views, shareType.view(version))
		}
		return document(http.StatusOK, map[string]any{"share_types": views, "volume_types": views})
	}
	shareType, ok := s.manila.find(elements[1])
	switch {
	case !ok:
		return s.failure(c, http.StatusNotFound, "Share type not found.")
	case len(elements) == 2:
		view := shareType.view(version)
		return document(http.StatusOK, map[string]any{"share_type": view, "volume_type": view})
	case elements[2] == "extra_specs":
		return document(http.StatusOK, map[string]any{"extra_specs": shareType.specs()})
	}
	return s.failure(c, http.StatusNotFound, "The resource could not be found.")
}
