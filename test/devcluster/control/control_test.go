package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
)

// target remembers what it was told.
type target struct {
	told []string
	err  error
}

func (t *target) StopAPI(_ context.Context, side cluster.Side, guest string, how controlplane.How) error {
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

// serve returns the file by which the target is found.
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

func TestRequestsArrive(t *testing.T) {
	t.Parallel()
	to := &target{}
	file := serve(t, to)
	for _, request := range []Request{
		{Action: StopAPI, Side: cluster.Guest, Guest: "g", How: controlplane.Hang},
		{Action: StartAPI, Side: cluster.Management, Guest: "g"},
		{Action: RotateGuestKubeconfig, Guest: "h"},
	} {
		if err := Send(t.Context(), file, request); err != nil {
			t.Errorf("%+v: %v", request, err)
		}
	}
	if diff := cmp.Diff([]string{"stop guest g hang", "start management g", "rotate h"}, to.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestErrorsComeBack(t *testing.T) {
	t.Parallel()
	file := serve(t, &target{err: errors.New("not today")})
	for name, test := range map[string]struct {
		file   string
		action Action
		want   string
	}{
		"refused": {file, StartAPI, "not today"},
		"unknown": {file, "dance", `action "dance" is not known`},
		"nobody":  {filepath.Join(t.TempDir(), "control.json"), StartAPI, "no devcluster takes requests here"},
	} {
		if err := Send(t.Context(), test.file, Request{Action: test.action}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
	}
}
