// Package simulator breaks nothing: the rules on state and environment are not about test/.
package simulator

import "os"

var home = os.Getenv("HOME")
