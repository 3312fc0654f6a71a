package driver_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
)

func TestMessagesOfTheDriverAreLimitedAndPrintable(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"no such volume":             "no such volume",
		"a\x1b[31m\nb\x00\u202ec\td": "a [31m b  c d",
		strings.Repeat("ü", 2000):    strings.Repeat("ü", 510) + "...",
	} {
		socket := filepath.Join(t.TempDir(), "s")
		failure, err := status.New(codes.NotFound, sent).WithDetails(&errdetails.BadRequest{})
		assert.NilError(t, err)
		fake{probe: failure.Err()}.serve(t, socket)
		_, err = connect(t, socket).Identity.Probe(t.Context(), &identity.ProbeRequest{})
		got := status.Convert(err)
		if got.Code() != codes.NotFound || got.Message() != want || len(got.Message()) > 1024 ||
			len(got.Details()) != 1 { // which CIDRs a driver refuses
			t.Errorf("%.20q arrives as %v", sent, err)
		}
	}
}

// Without a limit the client would wait up to two minutes after a driver was missing for a while.
func TestClientConnectsEverySecondWhileTheDriverIsMissing(t *testing.T) {
	t.Parallel()
	const attempts, bound = 10, time.Minute // by default gRPC needs more than two minutes
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err == nil {
		err = listener.SetDeadline(time.Now().Add(bound))
	}
	assert.NilError(t, err)
	defer listener.Close()
	client := connect(t, socket)
	go func() { _ = client.WaitReady(t.Context()) }() // ends with the test
	for i := range attempts {
		connection, err := listener.Accept()
		assert.Assert(t, err == nil, "the client tried to connect %d times in %v", i, bound)
		connection.Close()
	}
}
