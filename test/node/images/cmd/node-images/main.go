// Command node-images builds the images of everything that runs in the pods of a real node, and
// prints their names and files. `make node-images` calls it.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
