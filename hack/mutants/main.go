// Command mutants shows which mistakes the unit tests of packages notice: it changes one place of
// the code at a time, such as a condition, and prints which tests fail. `make mutants` calls it.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
