// Package terminal opens a pseudo-terminal, and draws what a program shows on it. Tests of the
// devcluster call it.
package terminal

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Terminal is a pseudo-terminal of 80 columns and 24 lines.
type Terminal struct {
	// Program is the end for the input and the output of a program.
	Program *os.File

	t        *testing.T
	keyboard *os.File
	screen   *vt.SafeEmulator
}

// Open returns a terminal, which is closed at the end of the test.
func Open(t *testing.T) *Terminal {
	t.Helper()
	keyboard, program, err := pty.Open()
	assert.NilError(t, err)
	assert.NilError(t, pty.Setsize(keyboard, &pty.Winsize{Rows: 24, Cols: 80}))
	x := &Terminal{Program: program, t: t, keyboard: keyboard, screen: vt.NewSafeEmulator(80, 24)}
	go func() { _, _ = io.Copy(x.screen, keyboard) }() // until the terminal is closed
	go func() { _, _ = io.Copy(keyboard, x.screen) }() // answers to questions of the program
	t.Cleanup(func() { _, _, _ = program.Close(), keyboard.Close(), x.screen.Close() })
	return x
}

// Press presses keys.
func (x *Terminal) Press(keys string) {
	x.t.Helper()
	if _, err := x.keyboard.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// Text returns what the terminal shows.
func (x *Terminal) Text() string { return ansi.Strip(x.screen.Render()) }

// MustShow waits until the terminal shows a text.
func (x *Terminal) MustShow(text string) { x.MustShowAfter(text, func() {}) }

// MustShowAfter calls a function again and again until the terminal shows a text.
func (x *Terminal) MustShowAfter(text string, work func()) {
	x.t.Helper()
	err := wait.PollUntilContextTimeout(x.t.Context(), 20*time.Millisecond, 3*time.Minute, true,
		func(context.Context) (bool, error) {
			work()
			return strings.Contains(x.Text(), text), nil
		})
	if err != nil {
		x.t.Fatalf("waiting for %q: %v; the terminal shows\n%s", text, err, x.Text())
	}
}
