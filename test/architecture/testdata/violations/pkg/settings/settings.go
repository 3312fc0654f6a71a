// Package settings breaks nothing.
package settings

import "os"

// Home may read the environment.
func Home() string { return os.Getenv("HOME") }
