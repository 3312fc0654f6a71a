// Command sbom writes a software bill of materials (SBOM) of each program in its arguments:
// PROGRAM.cdx.json in the format CycloneDX. It reads nothing but the programs, so that it works for
// a program from an image, too. `make sbom` calls it.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/openstack-csi/csi-operator/hack/sbom/bill"
)

// run writes the SBOM of each program beside it, prints their paths, and returns the exit code.
func run(programs []string, stdout, stderr io.Writer) int {
	if len(programs) == 0 {
		fmt.Fprintln(stderr, "sbom: name at least one program: sbom bin/manila-operator")
		return 2
	}
	for _, program := range programs {
		file := program + ".cdx.json"
		if err := write(program, file); err != nil {
			fmt.Fprintf(stderr, "sbom: %s: %v\n", program, err)
			return 1
		}
		fmt.Fprintln(stdout, file)
	}
	return 0
}

func write(program, file string) error {
	content, err := bill.OfProgram(program)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
