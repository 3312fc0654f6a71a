// Package fakedriver is a driver for unit tests. It serves the services of the CSI-Addons
// specification that the test links.
package fakedriver

import (
	"context"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"gotest.tools/v3/assert"
)

// Answer returns what a driver answers to a request of a method. Without a message and an error,
// the answer is empty.
type Answer func(ctx context.Context, method string) (proto.Message, error)

// Driver is a running driver.
type Driver struct {
	// Socket is the path of its socket.
	Socket string
	// Stop ends the driver before the test ends.
	Stop func()

	answer   Answer
	mu       sync.Mutex
	requests map[string]proto.Message
}

// Serve starts a driver, which runs until the test ends.
func Serve(t *testing.T, answer Answer) *Driver {
	t.Helper()
	d := &Driver{
		Socket: filepath.Join(t.TempDir(), "s"), answer: answer, requests: map[string]proto.Message{},
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", d.Socket)
	assert.NilError(t, err)
	server := grpc.NewServer(grpc.UnknownServiceHandler(d.handle))
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	d.Stop = server.Stop
	t.Cleanup(d.Stop)
	return d
}

// Last returns the last request of a method, or nil.
func (d *Driver) Last(method string) proto.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.requests[method]
}

// handle records the request of a call, and answers it.
func (d *Driver) handle(_ any, stream grpc.ServerStream) error {
	called, _ := grpc.MethodFromServerStream(stream)
	service, method := path.Split(strings.TrimPrefix(called, "/"))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(
		protoreflect.FullName(strings.TrimSuffix(service, "/")))
	if err != nil {
		return fmt.Errorf("calling %s: %w", called, err)
	}
	types := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
	request, err := newMessage(types.Input())
	if err == nil {
		err = stream.RecvMsg(request)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.requests[method] = request
	d.mu.Unlock()
	answer, err := d.answer(stream.Context(), method)
	if answer == nil && err == nil {
		answer, err = newMessage(types.Output())
	}
	if err != nil {
		return err
	}
	return stream.SendMsg(answer)
}

func newMessage(descriptor protoreflect.MessageDescriptor) (proto.Message, error) {
	found, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.FullName())
	if err != nil {
		return nil, err
	}
	return found.New().Interface(), nil
}
