package command

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/terminal"
	"github.com/openstack-csi/csi-operator/test/devcluster/view"
)

func TestRunPrintsTheKubeconfigOfEachCluster(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	showAccess(&out, "/state", []*cluster.Environment{
		{Dir: "/state/guests/guest-1", Guest: "guest-1"},
	})
	const want = "export KUBECONFIG=/state/admin.kubeconfig\n" +
		"export KUBECONFIG=/state/guests/guest-1/admin.kubeconfig  # guest-1\n"
	if got := strings.TrimSuffix(out.String(), "\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRunPrintsLinesUnlessAUserCanSeeAView(t *testing.T) {
	t.Parallel()
	x := terminal.Open(t)
	for name, test := range map[string]struct {
		in            io.Reader
		out           io.Writer
		exitWhenReady bool
		wantView      bool
	}{
		"terminal":            {in: x.Program, out: x.Program, wantView: true},
		"a script that waits": {in: x.Program, out: x.Program, exitWhenReady: true},
		"input of a file":     {in: &bytes.Buffer{}, out: x.Program},
		"output to a file":    {in: x.Program, out: &bytes.Buffer{}},
	} {
		f := runFlags{flags: &flags{}, exitWhenReady: test.exitWhenReady}
		_, isView := f.screen(places{}, nil, test.in, test.out).(*view.Live)
		if isView != test.wantView {
			t.Errorf("%s: a view is shown: %t", name, isView)
		}
	}
}
