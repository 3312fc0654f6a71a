package main

import "testing"

func TestSocketAcceptsTheFormsOfCSIComponents(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{
		"/csi/csi.sock", "unix:///csi/csi.sock", "unix://csi/csi.sock",
	} {
		if got := socketPath(endpoint); got != "/csi/csi.sock" {
			t.Errorf("the socket of %s is %s", endpoint, got)
		}
	}
}
