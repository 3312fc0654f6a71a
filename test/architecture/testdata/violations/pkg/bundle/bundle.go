// Package bundle imports sidewards.
package bundle

import _ "example.org/module/pkg/cluster"
