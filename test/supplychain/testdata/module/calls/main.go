// Command calls calls the function with the invented vulnerability.
package main

import (
	"os"
	"path"
)

func main() {
	if matched, err := path.Match("*.go", os.Args[0]); err != nil || !matched {
		os.Exit(1)
	}
}
