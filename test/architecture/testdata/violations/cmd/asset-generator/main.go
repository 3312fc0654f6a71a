// Command asset-generator violates nothing but what it links.
package main

import _ "example.org/module/pkg/generator"

func main() {}
