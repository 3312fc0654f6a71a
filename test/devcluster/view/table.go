package view

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table renders the drivers one after the other, with aligned columns.
func (s Snapshot) table() []string {
	var out strings.Builder
	for i, driver := range s {
		if i > 0 {
			fmt.Fprintln(&out)
		}
		if len(s) > 1 {
			fmt.Fprintln(&out, strings.ToUpper(driver.Driver.Title))
		}
		driver.write(&out)
	}
	rows := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	return rows
}

// write renders all parts of one driver.
func (s State) write(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CONDITION\tSTATUS\tREASON\tMESSAGE")
	for _, c := range s.Conditions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Type, c.Status, c.Reason, oneLine(c.Message))
	}
	none(w, len(s.Conditions))
	// Flush starts new columns.
	w.Flush()
	s.writeWorkloads(w)
	w.Flush()
	fmt.Fprintln(w, "\nSTORAGECLASS\tSHARE TYPE")
	for _, c := range s.Classes {
		fmt.Fprintf(w, "%s\t%s\n", c.Name, c.ShareType)
	}
	none(w, len(s.Classes))
	w.Flush()
}

// writeWorkloads has a column for the side only if there are two.
func (s State) writeWorkloads(w io.Writer) {
	header := "\nWORKLOAD\tNAME\tREADY\t"
	if s.Driver.isHosted() {
		header += "CLUSTER\t"
	}
	fmt.Fprintln(w, header)
	for _, l := range s.Workloads {
		state := "rolling out"
		if l.RolledOut {
			state = ""
		}
		if l.Side != "" {
			state = string(l.Side) + "\t" + state
		}
		fmt.Fprintf(w, "%s\t%s\t%d/%d\t%s\n", l.Kind, l.Name, l.Ready, l.Desired, state)
	}
	none(w, len(s.Workloads))
}

func none(w io.Writer, rows int) {
	if rows == 0 {
		fmt.Fprintln(w, "(none yet)")
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
