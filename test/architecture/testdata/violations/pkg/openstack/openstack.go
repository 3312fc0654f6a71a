// Package openstack breaks nothing.
package openstack

import (
	"errors"
	"fmt"
	"regexp"

	"example.org/module/pkg/openstack/share"
)

var _ fmt.Stringer = share.Type{}

var (
	errNone = errors.New("none")
	digits  = regexp.MustCompile(`\d`)
)

// Count breaks nothing: its variable is not the package's.
func Count() (string, error) {
	var count = map[string]int{}
	return fmt.Sprint(count, digits), errNone
}
