package simulator

import (
	"fmt"
	"slices"
)

// CatalogEntry is an entry of the service catalog that can be removed and restored.
type CatalogEntry struct {
	// Type is the service type, such as sharev2.
	Type string `json:"type"`
	// Service behind it.
	Service Service `json:"service"`
	// Removed means that tokens issued now do not list it.
	Removed bool `json:"removed"`
}

// catalogEntries lists the entries as a cloud is delivered. The types are what real clouds
// register; gophercloud finds sharev2 and volumev3 as aliases of shared-file-system and
// block-storage.
func catalogEntries() []CatalogEntry {
	return []CatalogEntry{
		{Type: "identity", Service: Identity},
		{Type: "sharev2", Service: Share},
		{Type: "compute", Service: Compute},
		{Type: "volumev3", Service: Volume},
	}
}

// entries lists the catalog with what is removed.
func (k *keystone) entries() []CatalogEntry {
	k.mu.Lock()
	defer k.mu.Unlock()
	entries := catalogEntries()
	for i := range entries {
		entries[i].Removed = k.removed[entries[i].Type]
	}
	return entries
}

// setRemoved removes or restores an entry. Tokens issued before keep the catalog they came with, as
// in Keystone.
func (k *keystone) setRemoved(serviceType string, removed bool) error {
	known := func(e CatalogEntry) bool { return e.Type == serviceType }
	if !slices.ContainsFunc(catalogEntries(), known) {
		return fmt.Errorf("the catalog has no type %q", serviceType)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removed[serviceType] = removed
	return nil
}

// catalog is the list of services and endpoints that goes with a token.
func (s *Simulator) catalog(c *call) []any {
	catalog := []any{}
	if c.emptyCatalog {
		return catalog
	}
	for _, entry := range s.keystone.entries() {
		if entry.Removed {
			continue
		}
		var endpoints []any
		for _, region := range s.config.Regions {
			for _, kind := range []string{"public", "internal", "admin"} {
				endpoints = append(endpoints, map[string]string{
					"id": stableID(entry.Type, region, kind), "interface": kind, "region": region,
					"region_id": region, "url": s.endpoint(entry.Service, region) +
						endpointVersion(entry.Service),
				})
			}
		}
		catalog = append(catalog, map[string]any{
			"id": stableID(entry.Type), "type": entry.Type, "name": projectName(entry.Service),
			"endpoints": endpoints,
		})
	}
	return catalog
}

// projectName is the name under which clouds register the service.
func projectName(service Service) string {
	return map[Service]string{
		Identity: "keystone", Share: "manilav2", Compute: "nova", Volume: "cinderv3",
	}[service]
}
