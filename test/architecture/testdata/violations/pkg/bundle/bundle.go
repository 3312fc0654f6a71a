// Package bundle imports sidewards.
package bundle

import _ "example.org/house/pkg/cluster"
