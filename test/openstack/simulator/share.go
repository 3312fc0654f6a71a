package simulator

import (
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"slices"
)

// ShareType is a share type of Manila.
type ShareType struct {
	Name string
	// Private share types exist, but Manila does not list them for the user of the credentials.
	Private bool
}

// Order is the order in which share types are listed. Manila promises none. The zero value is the
// order in which they were added.
type Order string

// Other orders.
const (
	Reversed Order = "reversed"
	// Shuffled is a new random order for each list.
	Shuffled Order = "shuffled"
)

// shareTypes answers a request for the share types.
func (s *Simulator) shareTypes(*call) reply {
	types := slices.Clone(s.types)
	switch s.order {
	case Reversed:
		slices.Reverse(types)
	case Shuffled:
		rand.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
	}
	list := []any{}
	for _, shareType := range types {
		if shareType.Private {
			continue
		}
		specs := map[string]string{"driver_handles_share_servers": "False"}
		list = append(list, map[string]any{
			"id": hex.EncodeToString([]byte(shareType.Name)), "name": shareType.Name, "extra_specs": specs,
			"required_extra_specs": specs, "os-share-type-access:is_public": true,
		})
	}
	return document(http.StatusOK, map[string]any{"share_types": list})
}
