package view

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/term"
	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/terminal"
)

func TestLiveTakesATerminalAndGivesItBack(t *testing.T) {
	t.Parallel()
	for name, quit := range map[string]func(*terminal.Terminal, context.CancelFunc){
		"q":         func(x *terminal.Terminal, _ context.CancelFunc) { x.Press("q") },
		"ctrl-c":    func(x *terminal.Terminal, _ context.CancelFunc) { x.Press("\x03") },
		"interrupt": func(_ *terminal.Terminal, interrupt context.CancelFunc) { interrupt() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := terminal.Open(t)
			before, err := term.GetState(int(x.Program.Fd()))
			assert.NilError(t, err)
			dir := paths.Dir(t.TempDir())
			err = paths.WriteFile(dir.OperatorLog("manila-operator"), []byte("line of the log\n"))
			assert.NilError(t, err)
			live := NewLive(About{Flavour: "standalone", Operators: operators(), Dir: dir},
				x.Program, x.Program)
			_, _ = io.WriteString(live, "before\n")
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			ended := make(chan error, 1)
			go func() { ended <- live.Run(ctx) }()
			x.MustShowAfter("NOT READY", func() { live.Show([]Cluster{outage()}) })
			x.MustShow("KUBECONFIG")
			x.Press("c")
			x.MustShow("CONDITIONS")
			x.Press("l")
			x.MustShow("line of the log")
			x.Press("\x1b")
			_, _ = io.WriteString(live, "a message of the devcluster")
			x.MustShow("a message of the devcluster")
			quit(x, interrupt)
			assert.Check(t, <-ended)
			after, err := term.GetState(int(x.Program.Fd()))
			assert.Check(t, err == nil && reflect.DeepEqual(before, after),
				"the terminal has another mode than before: %v", err)
			_, _ = io.WriteString(live, "after\n")
			x.MustShow("after")
			if !strings.HasPrefix(x.Text(), "before") {
				t.Errorf("the terminal shows\n%s", x.Text())
			}
		})
	}
}
