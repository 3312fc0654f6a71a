// Package operator reads the environment.
package operator

import "os"

// Value breaks nothing: the file may pass the function on.
func Value() func(string) (string, bool) { return os.LookupEnv }

// Call calls it.
func Call() { os.LookupEnv("HOME") }
