// Package version imports upwards.
package version

import _ "example.org/house/test/simulator"
