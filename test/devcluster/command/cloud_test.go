package command

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// runCommand runs one command line and returns its output.
func runCommand(ctx context.Context, dir paths.Dir, line string) (string, error) {
	var out bytes.Buffer
	root := newRoot(nil, append(strings.Fields(line), "--dir="+string(dir)))
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

// runCloud runs a cloud without a cluster, as `cloud serve` does.
func runCloud(t *testing.T) (*simulator.Simulator, paths.Dir) {
	t.Helper()
	dir := paths.Dir(t.TempDir())
	cloud, err := simulator.New(simulator.Config{})
	assert.NilError(t, err)
	assert.NilError(t, cloud.Start(t.Context()))
	stop, err := (&running{cloud: cloud}).serve(t.Context(), dir.Control())
	assert.NilError(t, err)
	t.Cleanup(stop)
	return cloud, dir
}

func TestCommandsChangeCloud(t *testing.T) {
	t.Parallel()
	cloud, dir := runCloud(t)
	for _, step := range []struct {
		line string
		want string // part of the output
	}{
		{"share-type add gold", ""},
		{"share-type add silver", ""},
		{"share-type remove gold", ""},
		{"zones compute az1 az2 --unavailable=az3", ""},
		{"zones volume", ""},
		{"outage reset", "fault-1\n"},
		{"outage hang --service share --path /share --method get --times 3", "fault-2\n"},
		{"outage slow", "fault-3\n"},
		{"outage 503", "fault-4\n"},
		{"outage", "fault-5\n"},
		{"recover fault-1", ""},
		{"rotate-credentials", ""},
		{"rotate-credentials --keep-secrets", ""},
		{"clouds-yaml", "auth_url: "},
	} {
		out, err := runCommand(t.Context(), dir, "cloud "+step.line)
		assert.Check(t, err == nil && strings.Contains(out, step.want),
			"%s: got error %v, output %q, want %q in it", step.line, err, out, step.want)
	}
	if types := cloud.ShareTypes(); len(types) != 1 || types[0].Name != "silver" {
		t.Errorf("share types are %v", types)
	}
	want := []simulator.Zone{{Name: "az1"}, {Name: "az2"}, {Name: "az3", Unavailable: true}}
	assert.Check(t, is.DeepEqual(want, cloud.Zones(simulator.Compute)), "zones")
	wanted := []simulator.Fault{
		{
			ID: "fault-2", Mode: simulator.Hang, Service: simulator.Share, PathPrefix: "/share",
			Method: http.MethodGet, Times: 3,
		},
		{ID: "fault-3", Mode: simulator.Slow, Delay: slowness},
		{ID: "fault-4", Mode: simulator.Status, Status: http.StatusServiceUnavailable},
		{ID: "fault-5", Mode: simulator.Unreachable},
	}
	assert.Check(t, is.DeepEqual(wanted, cloud.Faults()), "faults")
	if _, err := runCommand(t.Context(), dir, "cloud recover"); err != nil {
		t.Error(err)
	}
	if faults := cloud.Faults(); len(faults) > 0 {
		t.Errorf("after recover: %v", faults)
	}
}

func TestCloudServeRunsUntilInterrupted(t *testing.T) {
	t.Parallel()
	dir := paths.Dir(t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error, 1)
	go func() {
		_, err := runCommand(ctx, dir, "cloud serve --share-types a,b")
		ended <- err
	}()
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 5*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			_, err := runCommand(ctx, dir, "cloud share-type remove b")
			return err == nil, nil
		})
	assert.Check(t, err == nil, "the cloud executes no command")
	_, err = runCommand(ctx, dir, "cloud serve")
	assert.Check(t, err != nil && strings.Contains(err.Error(), "already"),
		"a second cloud in the same folder gives %v", err)
	interrupt()
	assert.Check(t, <-ended, "the end of serve")
	if _, err := os.Stat(dir.Control()); !os.IsNotExist(err) {
		t.Errorf("the file with the address is left: %v", err)
	}
}

func TestCommandsExplainMistakes(t *testing.T) {
	t.Parallel()
	_, dir := runCloud(t)
	empty := paths.Dir(t.TempDir())
	for line, test := range map[string]struct {
		dir  paths.Dir
		want string
	}{
		"cloud recover":                         {empty, "no devcluster runs here"},
		"cloud share-type remove missing":       {dir, "does not exist"},
		"cloud outage 20":                       {dir, "is not an error"},
		"cloud outage bad-certificate":          {dir, "needs a simulator that serves TLS"},
		"cloud zones identity nova":             {dir, "has no availability zones"},
		"api start":                             {dir, "only an OpenStack runs here"},
		"run --drivers=swift":                   {empty, "is not known"},
		"run --guests=2":                        {empty, "has no guests"},
		"run --nodes=virtual":                   {empty, "set it to simulated, real or real:N"},
		"run --nodes=real:10":                   {empty, "N from 1 to 9"},
		"run --nodes=real --flavour=hypershift": {empty, "needs flavour kubernetes"},
		"run --csi-addons":                      {empty, "--csi-addons needs --nodes=real"},
		"run --bin=/nonexistent":                {empty, "looking for the operator"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			_, err := runCommand(t.Context(), test.dir, line)
			assert.Check(t, err != nil && strings.Contains(err.Error(), test.want),
				"got %v, want an error with %q", err, test.want)
		})
	}
}
