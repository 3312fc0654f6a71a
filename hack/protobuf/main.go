// Command protobuf writes the Go code of a protobuf file beside it. hack/code.sh calls it.
//
// Its first argument is the folder of the plugins protoc-gen-go and protoc-gen-go-grpc, its second
// argument is the root of the tree with the files in the other arguments.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stderr))
}
