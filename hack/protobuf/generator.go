// Command protobuf writes the Go code of a protobuf file beside it. hack/code.sh calls it.
//
// Its first argument is the folder of the plugin protoc-gen-go, its second argument is the root of
// the tree with the files in the other arguments.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func run(ctx context.Context, args []string, stderr io.Writer) int {
	const needed = 3
	if len(args) < needed {
		_, _ = fmt.Fprintln(stderr, "usage: protobuf PLUGINS ROOT FILE...")
		return 2
	}
	g := generator{plugins: args[0], root: args[1], stderr: stderr}
	for _, file := range args[2:] {
		if err := g.generate(ctx, file); err != nil {
			_, _ = fmt.Fprintf(stderr, "protobuf: %s: %v\n", file, err)
			return 1
		}
	}
	return 0
}

type generator struct {
	plugins, root string
	stderr        io.Writer
}

// generate writes the Go code of a file that imports no other. Its path is relative to the root.
func (g generator) generate(ctx context.Context, file string) error {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{g.root}},
		SourceInfoMode: protocompile.SourceInfoStandard, // with comments
	}
	compiled, err := compiler.Compile(ctx, file)
	if err != nil {
		return err
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{file},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile: []*descriptorpb.FileDescriptorProto{
			protoutil.ProtoFromFileDescriptor(compiled[0]),
		},
	})
	if err != nil {
		return fmt.Errorf("encoding the request of the plugin: %w", err)
	}
	return g.call(ctx, request)
}

// call runs the plugin, and writes the files that it returns.
func (g generator) call(ctx context.Context, request []byte) error {
	cmd := exec.CommandContext(ctx, filepath.Join(g.plugins, "protoc-gen-go"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), g.stderr
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("protoc-gen-go: %w", err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, written := range response.GetFile() {
		path := filepath.Join(g.root, filepath.FromSlash(written.GetName()))
		if err := os.WriteFile(path, []byte(written.GetContent()), 0o600); err != nil {
			return fmt.Errorf("writing the code: %w", err)
		}
	}
	return nil
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stderr))
}
