// Command sbom writes a software bill of materials (SBOM) of each program in its arguments:
// PROGRAM.cdx.json in the format CycloneDX. It reads nothing but the programs, so that it works for
// a program from an image, too. `make sbom` calls it.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
