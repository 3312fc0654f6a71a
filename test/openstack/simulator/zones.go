package simulator

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// Zone is an availability zone. The zero state is available.
type Zone struct {
	Name string `json:"name"`
	// Unavailable zones are listed as not available.
	Unavailable bool `json:"unavailable,omitempty"`
}

// zones is the state of Nova and Cinder.
type zones struct {
	mu        sync.Mutex
	byService map[Service][]Zone
}

func newZones(config Config) *zones {
	return &zones{byService: map[Service][]Zone{
		Compute: slices.Clone(config.ComputeZones), Volume: slices.Clone(config.VolumeZones),
	}}
}

// of lists the zones of a service.
func (z *zones) of(service Service) ([]Zone, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	list, ok := z.byService[service]
	if !ok {
		return nil, fmt.Errorf("service %q has no availability zones, want %s or %s", service, Compute,
			Volume)
	}
	return append([]Zone{}, list...), nil
}

// set replaces the zones of a service.
func (z *zones) set(service Service, list []Zone) error {
	if _, err := z.of(service); err != nil {
		return err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.byService[service] = slices.Clone(list)
	return nil
}

// availability answers a call to Nova or Cinder.
func (s *Simulator) availability(c *call) reply {
	version := endpointVersion(c.service)
	switch c.path {
	case "/":
		return document(http.StatusMultipleChoices,
			map[string]any{"versions": []any{s.version(c, version)}})
	case version:
		return document(http.StatusOK, map[string]any{"version": s.version(c, version)})
	}
	resource, ok := s.resource(c, version)
	if !ok {
		return s.failure(c, http.StatusNotFound, "The resource could not be found.")
	}
	if !s.keystone.valid(c.header.Get(headerAuthToken)) {
		return s.failure(c, http.StatusUnauthorized, textAuthenticate)
	}
	switch resource {
	case "os-availability-zone":
		return s.zoneList(c)
	case "os-availability-zone/detail":
		return s.failure(c, http.StatusForbidden, "Policy doesn't allow the details to be listed.")
	}
	return s.failure(c, http.StatusNotFound, "The resource could not be found.")
}

// zoneList returns the zones. Nova adds hosts, which are not shown.
func (s *Simulator) zoneList(c *call) reply {
	list, err := s.zones.of(c.service)
	if err != nil {
		return s.failure(c, http.StatusNotFound, err.Error())
	}
	views := []any{}
	for _, zone := range list {
		view := map[string]any{
			"zoneName": zone.Name, "zoneState": map[string]bool{"available": !zone.Unavailable},
		}
		if c.service == Compute {
			view["hosts"] = nil
		}
		views = append(views, view)
	}
	return document(http.StatusOK, map[string]any{"availabilityZoneInfo": views})
}

// version describes the one API version of Nova or Cinder.
func (s *Simulator) version(c *call, path string) map[string]any {
	id, highest, lowest := "v2.1", "2.96", "2.1"
	if c.service == Volume {
		id, highest, lowest = "v3.0", "3.71", "3.0"
	}
	return map[string]any{
		"id": id, "status": "CURRENT", "version": highest, "min_version": lowest,
		"updated": "2016-02-08T12:20:21Z",
		"links": []any{map[string]string{
			"rel": "self", "href": s.endpoint(c.service, c.region) + path + "/",
		}},
	}
}
