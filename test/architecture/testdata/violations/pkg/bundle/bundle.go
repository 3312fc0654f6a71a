// Package bundle imports a package of a higher level, and one of a lower level.
package bundle

import (
	_ "example.org/module/pkg/cluster"
	_ "example.org/module/pkg/flavour"
)
