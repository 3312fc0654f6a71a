package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Display prints the lines that changed since the previous call of Show. It is safe for concurrent
// use.
type Display struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
	last  []string
}

// NewDisplay returns a Display that prints to out.
func NewDisplay(out io.Writer) *Display { return &Display{out: out, start: time.Now()} }

// Write implements io.Writer.
func (d *Display) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.Write(text)
}

// Show prints new lines, and lines whose subject is gone: a line for each object, or with several
// clusters one line for each of them. It prints nothing if a cluster could not be read.
func (d *Display) Show(clusters []Cluster) {
	var now []string
	for _, c := range clusters {
		switch {
		case c.Err != nil:
			return
		case len(clusters) == 1:
			now = c.State.Lines()
		default:
			now = append(now, c.line())
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := fmt.Sprintf("%6.1fs ", time.Since(d.start).Seconds())
	for _, line := range now {
		if !slices.Contains(d.last, line) {
			fmt.Fprintln(d.out, at+printable(line))
		}
	}
	for _, line := range d.last {
		if !slices.ContainsFunc(now, func(other string) bool { return subject(other) == subject(line) }) {
			fmt.Fprintln(d.out, at+"gone: "+printable(line))
		}
	}
	d.last = now
}

// printable replaces characters that could control the terminal, or hide text. It keeps new lines.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// subject returns what a line is about: its first two words, and the title of the driver before
// them.
func subject(line string) string {
	words := strings.SplitN(line, " ", 4)
	count := 2
	if strings.HasSuffix(words[0], ":") {
		count++
	}
	name, _, _ := strings.Cut(strings.Join(words[:min(count, len(words))], " "), "=")
	return name
}
