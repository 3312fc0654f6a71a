package view

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Display shows one frame after the other. What is written to it stays above the
// present frame. It is safe for concurrent use.
type Display interface {
	io.Writer
	Show(Frame)
}

// Frame is what can be shown: a Snapshot or an Overview.
type Frame interface {
	// lines tell one thing each, and begin with two words of what they are about.
	lines() []string
	// table has aligned rows.
	table() []string
}

// NewDisplay returns a table that is redrawn in place if out is a terminal, and
// otherwise lines that tell what has changed.
func NewDisplay(out io.Writer) Display {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &table{out: out, size: func() (int, int, error) { return term.GetSize(int(f.Fd())) }}
	}
	return &lines{out: out, start: time.Now()}
}

// lines appends what changed.
type lines struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
	last  []string
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(text)
}

func (l *lines) Show(f Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := f.lines()
	at := fmt.Sprintf("%6.1fs ", time.Since(l.start).Seconds())
	for _, line := range now {
		if !slices.Contains(l.last, line) {
			fmt.Fprintln(l.out, at+line)
		}
	}
	for _, line := range l.last {
		if !slices.ContainsFunc(now, sameSubject(line)) {
			fmt.Fprintln(l.out, at+"gone: "+line)
		}
	}
	l.last = now
}

// sameSubject compares what a line is about, which is in its first two words; a
// label may come before them.
func sameSubject(line string) func(string) bool {
	subject := func(line string) string {
		words := strings.SplitN(line, " ", 4)
		count := 2
		if strings.HasSuffix(words[0], ":") {
			count++
		}
		name, _, _ := strings.Cut(strings.Join(words[:count], " "), "=")
		return name
	}
	return func(other string) bool { return subject(other) == subject(line) }
}

func (s Snapshot) lines() []string {
	var all []string
	for _, driver := range s {
		label := s.label(driver)
		for _, c := range driver.Conditions {
			all = append(all, label+c.String())
		}
		for _, w := range driver.Workloads {
			all = append(all, label+w.String())
		}
		for _, c := range driver.Classes {
			all = append(all, label+c.String())
		}
	}
	return all
}

// table redraws itself.
type table struct {
	mu    sync.Mutex
	out   io.Writer
	size  func() (width, height int, err error)
	drawn []string // on the screen
}

const (
	cursorUp   = "\x1b[%dA"
	clearBelow = "\r\x1b[J"
)

func (t *table) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := t.drawn
	t.erase()
	n, err := t.out.Write(text)
	t.draw(rows)
	return n, err
}

func (t *table) Show(f Frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := f.table()
	if width, height, err := t.size(); err == nil {
		rows = clip(rows, width, height)
	}
	if slices.Equal(rows, t.drawn) {
		return
	}
	t.erase()
	t.draw(rows)
}

func (t *table) erase() {
	if len(t.drawn) > 0 {
		fmt.Fprintf(t.out, cursorUp+clearBelow, len(t.drawn))
	}
	t.drawn = nil
}

func (t *table) draw(rows []string) {
	for _, row := range rows {
		fmt.Fprintln(t.out, row)
	}
	t.drawn = rows
}

// clip keeps rows from wrapping and from leaving the screen, since what has left
// it cannot be redrawn.
func clip(rows []string, width, height int) []string {
	if height > 1 && len(rows) > height-1 {
		rows = rows[:height-1]
	}
	clipped := make([]string, len(rows))
	for i, row := range rows {
		runes := []rune(row)
		clipped[i] = string(runes[:min(len(runes), max(width-1, 0))])
	}
	return clipped
}
