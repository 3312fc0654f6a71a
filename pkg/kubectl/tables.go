package kubectl

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"k8s.io/utils/ptr"
)

// writeTables writes a table of the drivers, of the sidecars, and of the StorageClasses.
func (r *Status) writeTables(out io.Writer) {
	rows := [][]string{{
		"DRIVER", "READY", "CLOUD", "CREDENTIALS", "CONTROLLER", "NODES", "OPERATOR",
	}}
	for _, d := range r.Drivers {
		rows = append(rows, []string{
			d.Title, d.Ready, d.Cloud, d.Credentials, d.Controller, d.Nodes, d.Operator,
		})
	}
	writeTable(out, rows)
	rows = [][]string{{"SIDECAR", "LEADER"}}
	for _, s := range r.Sidecars {
		leader := cmp.Or(s.Leader, "none")
		if !s.Leads && s.Leader != "" {
			leader += " (gone)"
		}
		rows = append(rows, []string{s.Driver + " " + s.Name, leader})
	}
	writeTable(out, rows)
	for _, d := range r.Drivers {
		if d.CSIAddonsSidecars > 0 {
			fmt.Fprintf(out, "CSI-Addons of %s: %d of %d sidecars are connected.\n", d.Title,
				d.CSIAddonsConnected, d.CSIAddonsSidecars)
		}
	}
	r.writeClasses(out)
}

// writeClasses writes those with most pending claims first.
func (r *Status) writeClasses(out io.Writer) {
	classes := slices.Clone(r.Classes)
	slices.SortStableFunc(classes, func(a, b Class) int {
		return cmp.Or(cmp.Compare(ptr.Deref(b.Pending, 0), ptr.Deref(a.Pending, 0)),
			cmp.Compare(a.Name, b.Name))
	})
	rows := [][]string{{"CLASS", "DRIVER", "CLAIMS", "PENDING"}}
	more := 0
	for i, c := range classes {
		if i >= maxClasses && !r.verbose {
			more++
			continue
		}
		name := c.Name
		if c.Default {
			name += " (default)"
		}
		rows = append(rows, []string{name, c.Driver, number(c.Claims), number(c.Pending)})
	}
	writeTable(out, rows)
	if more > 0 {
		fmt.Fprintf(out, "and %d more classes (-v lists them)\n", more)
	}
}

func number(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

// writeTable writes aligned columns; nothing if there is only a header.
func writeTable(out io.Writer, rows [][]string) {
	if len(rows) < 2 {
		return
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = strings.Join(strings.Fields(printable(row[i])), " ")
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // the writer that it fills reports the error again
}
