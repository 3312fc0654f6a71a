package openstack

import (
	"errors"
	"unicode/utf8"
)

// Bounds of what a service lists: more than real clouds have, and what OpenStack's own databases hold.
const (
	maxItems = 1000
	maxName  = 255
)

// errTooMany is a list beyond maxItems.
var errTooMany = errors.New("too many items in a list")

// checked converts the items of a list. An item without a name, or with one that OpenStack could not store, comes from something
// that is no OpenStack.
func checked[T, R any](found []T, convert func(T) (name string, result R)) ([]R, error) {
	if len(found) > maxItems {
		return nil, errTooMany
	}
	results := make([]R, 0, len(found))
	for _, f := range found {
		name, result := convert(f)
		if name == "" || utf8.RuneCountInString(name) > maxName {
			return nil, errForeign
		}
		results = append(results, result)
	}
	return results, nil
}
