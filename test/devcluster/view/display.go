package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
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

// Show prints new lines, and lines whose subject is gone.
func (d *Display) Show(now []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := fmt.Sprintf("%6.1fs ", time.Since(d.start).Seconds())
	for _, line := range now {
		if !slices.Contains(d.last, line) {
			fmt.Fprintln(d.out, at+line)
		}
	}
	for _, line := range d.last {
		if !slices.ContainsFunc(now, func(other string) bool { return subject(other) == subject(line) }) {
			fmt.Fprintln(d.out, at+"gone: "+line)
		}
	}
	d.last = now
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
