package callers_test

import (
	"fmt"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/callers"
)

func TestNetworkIsWhatOneMachineCanUse(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"10.0.0.1:1234":           "10.0.0.1",
		"10.0.0.1":                "10.0.0.1",
		"[::ffff:10.0.0.1]:1":     "10.0.0.1",
		"[fd00:1:2:3:4:5:6:7]:80": "fd00:1:2:3::/64",
		"[fe80::1%eth0]:80":       "fe80::/64",
		"@":                       "",
	} {
		if got := callers.Network(address); got != want {
			t.Errorf("the network of %s is %q, want %q", address, got, want)
		}
	}
}

func TestEachNetworkHasALimit(t *testing.T) {
	t.Parallel()
	const burst = 5
	limits := callers.New(0, burst, 10)
	allowed := 0
	for n := range 100 {
		if limits.Allow(fmt.Sprintf("[fd00::%x]:%d", n+1, n+1)) {
			allowed++
		}
	}
	if allowed != burst {
		t.Errorf("addresses of one network may do %d things, want %d", allowed, burst)
	}
	if !limits.Allow("[fd00:0:0:1::1]:1") || !limits.Allow("10.0.0.1:1") {
		t.Error("a network uses the limit of another")
	}
}
