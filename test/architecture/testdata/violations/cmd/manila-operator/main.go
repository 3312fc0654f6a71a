// Command manila-operator does too much.
package main

import (
	"fmt"

	_ "example.org/module/pkg/drivers/manila"
	_ "example.org/module/pkg/generator"
	_ "testing"
)

const name = "manila"

func main() {
	fmt.Print(name)
	help()
}

func help() {}
