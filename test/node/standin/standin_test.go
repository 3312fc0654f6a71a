package standin_test

import (
	"testing"

	"github.com/openstack-csi/csi-operator/test/node/standin"
)

func TestSocketAcceptsTheFormsOfCSIComponents(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{
		"/csi/csi.sock", "unix:///csi/csi.sock", "unix://csi/csi.sock",
	} {
		if got := standin.Socket(endpoint); got != "/csi/csi.sock" {
			t.Errorf("the socket of %s is %s", endpoint, got)
		}
	}
}
