// Command choices writes docs/configuration.md and assets/schema from the types of pkg/choice.
// hack/update.sh calls it.
package main

import "os"

func main() {
	os.Exit(run(".", os.Stderr))
}
