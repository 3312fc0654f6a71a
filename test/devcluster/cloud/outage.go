package cloud

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// DefaultOutage is the outage nobody described further.
const DefaultOutage = string(simulator.Unreachable)

// slowness is longer than any client should wait for.
const slowness = 30 * time.Second

// Outage turns a word of the command line into a fault: a mode of the simulator,
// or an HTTP status.
func Outage(kind string) (simulator.Fault, error) {
	if status, err := strconv.Atoi(kind); err == nil {
		return simulator.Fault{Mode: simulator.Status, Status: status}, nil
	}
	fault := simulator.Fault{Mode: simulator.Mode(kind)}
	if !slices.Contains(outageModes(), fault.Mode) {
		return fault, fmt.Errorf("outage %q is not known, only %s or an HTTP status such as 503", kind, OutageKinds())
	}
	if fault.Mode == simulator.Slow {
		fault.Delay = slowness
	}
	return fault, nil
}

// OutageKinds lists the words that Outage knows, for help texts.
func OutageKinds() string {
	var names []string
	for _, mode := range outageModes() {
		names = append(names, string(mode))
	}
	return strings.Join(names, ", ")
}

// outageModes are the modes that need no further argument.
func outageModes() []simulator.Mode {
	return slices.DeleteFunc(simulator.Modes(), func(m simulator.Mode) bool { return m == simulator.Status || m == simulator.Foreign })
}
