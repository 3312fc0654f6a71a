package operator

import "os"

// Value is in a file that may not.
func Value2() func(string) (string, bool) { return os.LookupEnv }

// All reads everything.
func All() []string { return os.Environ() }
