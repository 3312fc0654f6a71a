package generator

import (
	"flag"
	"fmt"
	"io"
)

// Main runs the asset generator with the arguments of a command line, and returns its exit code.
func Main(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("asset-generator", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("assets", "assets", "folder with base/, sidecars/, flavours/ and drivers/")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "asset-generator: unexpected arguments %q\n", flags.Args())
		return 2
	}
	if err := Update(*root); err != nil {
		fmt.Fprintf(stderr, "asset-generator: in %s:\n%v\n", *root, err)
		return 1
	}
	return 0
}
