package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
)

// target records its requests.
type target struct {
	told []string
	err  error
}

func (t *target) StopAPI(
	_ context.Context, side cluster.Side, guest string, how controlplane.How,
) error {
	t.told = append(t.told, "stop "+string(side)+" "+guest+" "+string(how))
	return t.err
}

func (t *target) StartAPI(_ context.Context, side cluster.Side, guest string) error {
	t.told = append(t.told, "start "+string(side)+" "+guest)
	return t.err
}

func (t *target) RotateGuestKubeconfig(_ context.Context, guest string) error {
	t.told = append(t.told, "rotate "+guest)
	return t.err
}

// serve returns the file with the address of the target.
func serve(t *testing.T, to *target) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "control.json")
	stop, err := Serve(t.Context(), file, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("the file is still there: %v", err)
		}
	})
	return file
}

func TestSendReachesTarget(t *testing.T) {
	t.Parallel()
	to := &target{}
	file := serve(t, to)
	for action, request := range map[Action]Request{
		StopAPI:               {Side: cluster.Guest, Guest: "g", How: controlplane.Hang},
		StartAPI:              {Side: cluster.Management, Guest: "g"},
		RotateGuestKubeconfig: {Guest: "h"},
	} {
		if err := Send(t.Context(), file, action, request); err != nil {
			t.Errorf("%s: %v", action, err)
		}
	}
	slices.Sort(to.told)
	diff := cmp.Diff([]string{"rotate h", "start management g", "stop guest g hang"}, to.told)
	if diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestSendReturnsErrors(t *testing.T) {
	t.Parallel()
	file := serve(t, &target{err: errors.New("not today")})
	for name, test := range map[string]struct {
		file   string
		action Action
		want   string
	}{
		"refused": {file, StartAPI, "not today"},
		"unknown": {file, "dance", "404"},
		"nobody":  {filepath.Join(t.TempDir(), "control"), StartAPI, "no devcluster runs here"},
	} {
		err := Send(t.Context(), test.file, test.action, Request{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
	}
}
