package main

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestSocketAcceptsTheFormsOfCSIComponents(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{
		"/csi/csi.sock", "unix:///csi/csi.sock", "unix://csi/csi.sock",
	} {
		assert.Check(t, is.Equal(socketPath(endpoint), "/csi/csi.sock"), "the socket of %s", endpoint)
	}
}
