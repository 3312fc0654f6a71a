// Command imports calls another function of the package with the invented vulnerability.
package main

import (
	"os"
	"path"
)

func main() {
	if path.Base(os.Args[0]) == "" {
		os.Exit(1)
	}
}
