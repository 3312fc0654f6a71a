package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/test/node"
)

func TestNodesAreSimulatedUnlessRealOnesAreWanted(t *testing.T) {
	t.Parallel()
	f := flags{nodes: simulatedNodes, flavour: hypershift}
	nodes, err := f.nodeOptions(places{})
	if err != nil || nodes.Count != 0 {
		t.Errorf("got %d real nodes and error %v", nodes.Count, err)
	}
}

func TestCSIAddonsNeedsRealNodes(t *testing.T) {
	t.Parallel()
	f := flags{nodes: simulatedNodes, flavour: standalone, csiAddons: true}
	_, err := f.nodeOptions(places{})
	if err == nil || !strings.Contains(err.Error(), "--csi-addons needs --nodes=real") {
		t.Errorf("with simulated nodes: got error %v", err)
	}
}

// `make run` checks the machine before it builds the programs.
func TestCheckOfRealNodesNeedsNoPrograms(t *testing.T) {
	t.Parallel()
	_, err := (&flags{nodes: "real", flavour: standalone, check: true}).nodeOptions(places{})
	if want := node.CheckMachine(); fmt.Sprint(err) != fmt.Sprint(want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func TestNodesFlagNamesMistakes(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"":        `--nodes is ""`,
		"virtual": "set it to simulated, real or real:N",
		"real:":   "N from 1 to 9",
		"real:0":  "N from 1 to 9",
		"real:10": "N from 1 to 9",
		"real:2x": "N from 1 to 9",
	} {
		_, err := (&flags{nodes: value, flavour: standalone}).nodeOptions(places{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--nodes=%q: got error %v, want %q", value, err, want)
		}
	}
	_, err := (&flags{nodes: "real:2", flavour: hypershift}).nodeOptions(places{})
	if err == nil || !strings.Contains(err.Error(), "needs flavour standalone") {
		t.Errorf("with guests: got error %v", err)
	}
}
