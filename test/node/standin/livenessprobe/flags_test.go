package main

import (
	"testing"

	"github.com/openstack-csi/csi-operator/test/node/standin/operands"
)

func TestArgumentsOfOperandsAreAccepted(t *testing.T) {
	t.Parallel()
	operands.CheckFlags(t, "LIVENESS_PROBE_IMAGE", &livenessProbe{})
}
