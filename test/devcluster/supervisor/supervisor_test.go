package supervisor

import (
	"errors"
	"os"
	"testing"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

func phase(t *testing.T, dir paths.Dir) Phase {
	t.Helper()
	state, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return state.Phase
}

func TestServeWritesItsEnd(t *testing.T) {
	t.Parallel()
	failure := errors.New("no etcd today")
	for name, test := range map[string]struct {
		err  error
		want State
	}{
		"orderly": {want: State{Phase: Down}},
		"failed":  {err: failure, want: State{Phase: Failed, Error: failure.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := paths.Dir(t.TempDir())
			if got := phase(t, dir); got != Down {
				t.Errorf("phase of an empty folder is %s", got)
			}
			err := Serve(dir, func(ready func() error) error { return errors.Join(ready(), test.err) })
			if !errors.Is(err, test.err) {
				t.Errorf("got error %v, want %v", err, test.err)
			}
			got, err := Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got.Phase != test.want.Phase || got.Error != test.want.Error {
				t.Errorf("state is %+v, want %+v", got, test.want)
			}
			if _, err := os.Stat(dir.PID()); !os.IsNotExist(err) {
				t.Errorf("the process id is still there: %v", err)
			}
		})
	}
}

// A killed process leaves its word behind, but not its lock.
func TestKilledProcessCountsAsDown(t *testing.T) {
	t.Parallel()
	dir := paths.Dir(t.TempDir())
	if err := write(dir, State{Phase: Ready, PID: 1}); err != nil {
		t.Fatal(err)
	}
	if got := phase(t, dir); got != Down {
		t.Errorf("phase is %s, want %s", got, Down)
	}
	if found, err := Stop(t.Context(), dir, 0); found || err != nil {
		t.Errorf("Stop found %t, %v; want nothing", found, err)
	}
}
