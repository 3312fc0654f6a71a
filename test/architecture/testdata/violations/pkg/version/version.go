// Package version imports a package of the same level, and one of a higher level.
package version

import (
	_ "example.org/module/pkg/openstack"
	_ "example.org/module/test/simulator"
)
