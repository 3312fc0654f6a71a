// Command asset-generator breaks nothing but what it links.
package main

import _ "example.org/module/pkg/generator"

func main() {
	print("one statement")
}
