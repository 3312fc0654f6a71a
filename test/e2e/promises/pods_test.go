//go:build e2e

package promises

import (
	"context"
	"os"
	"strings"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

const (
	namespace = pods.Namespace
	timeout   = pods.Timeout
)

// test is a running test with its cluster.
type test struct{ *pods.Test }

// write creates a writer of each driver.
func (x *test) write(name string) writers {
	x.T.Helper()
	return writers{x.Write(name+"-volume", pods.Cinder()), x.Write(name+"-share", pods.Manila())}
}

// writers are pods that write to volumes of different drivers.
type writers []*pods.Writer

func (all writers) mustBeUndisturbed() {
	for _, w := range all {
		w.MustBeUndisturbed()
	}
}

func (all writers) mustHaveWritten() {
	for _, w := range all {
		w.MustHaveWritten()
	}
}

// terminal returns the environment of a terminal of an administrator, with more folders of
// programs.
func (x *test) terminal(folders ...string) []string {
	folders = append(folders, x.Cluster.Binaries, os.Getenv("BIN_DIR"), os.Getenv("PATH"))
	return []string{
		"KUBECONFIG=" + x.Cluster.Dir.AdminKubeconfig(),
		"PATH=" + strings.Join(folders, string(os.PathListSeparator)),
	}
}

// run runs a command in the terminal, and returns what it prints.
func (x *test) run(command string) string {
	x.T.Helper()
	output, err := guide.Output(x.T.Context(), command, x.terminal()...)
	x.Must(err)
	return output
}

// runAfter runs a command after the test.
func (x *test) runAfter(command string) {
	x.CleanUp(func(ctx context.Context) error { return guide.Run(ctx, command, x.terminal()...) })
}
