// Package version imports upwards.
package version

import _ "example.org/module/test/simulator"
