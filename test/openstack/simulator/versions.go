package simulator

import "net/http"

// versions returns what answers a request for the version documents of a service: of all its
// versions if the version is empty. It returns nil for a version that does not exist.
func (s *Simulator) versions(service Service, version string) func(*call) reply {
	if version != "" && "/"+version != versionPath(service) {
		return nil
	}
	return func(c *call) reply {
		if c.method != http.MethodGet {
			return failure(c, http.StatusMethodNotAllowed, "The method is not allowed.")
		}
		s.mu.Lock()
		authorized := s.authorized(c)
		s.mu.Unlock()
		switch {
		case service == Compute && version != "":
			return document(http.StatusOK, map[string]any{"version": s.version(service)})
		case service == Compute:
			return document(http.StatusOK, map[string]any{"versions": []any{s.version(service)}})
		case version == "":
			return document(http.StatusMultipleChoices,
				map[string]any{"versions": []any{s.version(service)}})
		case !authorized:
			return failure(c, http.StatusUnauthorized, errorAuthentication)
		}
		return document(http.StatusOK, map[string]any{"versions": []any{s.version(service)}})
	}
}

// version returns the document of the only version of a service.
func (s *Simulator) version(service Service) map[string]any {
	versions := s.apis[service].Versions()
	ids := map[Service]string{Share: "v2.0", Compute: "v2.1", Volume: "v3.0"}
	updated := map[Service]string{
		Share: "2015-08-27T11:33:21Z", Compute: "2013-07-23T11:33:21Z", Volume: "2022-08-31T00:00:00Z",
	}
	return map[string]any{
		"id": ids[service], "status": "CURRENT", "version": versions.Maximum.String(),
		"min_version": versions.Minimum.String(), "updated": updated[service],
		"links": []map[string]string{
			{"rel": "self", "href": s.endpoint(service, s.config.Regions[0]) + "/"},
		},
	}
}
