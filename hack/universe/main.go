// Command universe writes the lists of what components, drivers and services say about storage,
// from their sources: into the folder testdata/universe of pkg/kubectl/meaning, and the parameters
// of classes into parameters.txt of the package. `make universe` runs it.
//
// The modules come from the Go module proxy in the versions of sources.go; OpenStack's services are
// Debian's packages of this machine. A test of pkg/kubectl/meaning judges each entry.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Stderr)) }
