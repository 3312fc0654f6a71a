// Command manila-operator links what it must not link.
package main

import (
	_ "example.org/module/pkg/drivers/manila"
	_ "example.org/module/pkg/generator"
	_ "testing"
)

func main() {}
