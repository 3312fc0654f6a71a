// Command images builds the images of the operators without a container engine, as OCI layouts, and
// pushes them to a registry. It reads from the Dockerfiles how to build and run the programs. `make
// images` calls it.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
