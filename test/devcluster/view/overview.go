package view

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Overview is the state of many hosted clusters, each in one line.
type Overview []Hosted

// Hosted is what a hosted cluster waits for.
type Hosted struct {
	Guest   string
	Missing []string
}

// lines implements Frame.
func (o Overview) lines() []string {
	var all []string
	for _, h := range o {
		all = append(all, "cluster "+h.Guest+" "+h.String())
	}
	return all
}

// String names the first of all that is missing.
func (h Hosted) String() string {
	if len(h.Missing) == 0 {
		return "is ready"
	}
	text := "waits: " + oneLine(h.Missing[0])
	if more := len(h.Missing) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// table implements Frame.
func (o Overview) table() []string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLUSTER\tSTATE")
	for _, h := range o {
		fmt.Fprintf(w, "%s\t%s\n", h.Guest, h)
	}
	// A string cannot refuse what is written to it.
	_ = w.Flush()
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
}
