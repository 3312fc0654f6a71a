package view

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

const indent = 11

// row is a line of the terminal. Its text is plain: View makes it safe, cuts it and adds the style.
type row struct {
	text  string
	style ansi.Style
}

func column(label string) string { return fmt.Sprintf("%-*s", indent, label) }

// flow returns rows of cells after a prefix. It returns nothing without cells.
func flow(prefix string, cells []string, width int) []row {
	if len(cells) == 0 {
		return nil
	}
	const gap = "   "
	rows := []row{{text: prefix + cells[0]}}
	for _, cell := range cells[1:] {
		last := &rows[len(rows)-1]
		if ansi.StringWidth(last.text+gap+cell) <= width {
			last.text += gap + cell
			continue
		}
		rows = append(rows, row{text: strings.Repeat(" ", len(prefix)) + cell})
	}
	return rows
}

// cut returns the first rows, and says if there are more.
func cut(rows []row, limit int) []row {
	if len(rows) > limit {
		rows = rows[:limit]
		rows[limit-1].text += " " + ellipsis
	}
	return rows
}

// fit returns the blocks that fit, and says if there are more.
func fit(blocks [][]row, space int) []row {
	var rows []row
	for i, block := range blocks {
		needed := len(rows) + len(block)
		if i+1 < len(blocks) {
			needed++
		}
		if needed > space {
			return append(rows, row{text: fmt.Sprintf("    %d more: press c", len(blocks)-i)})
		}
		rows = append(rows, block...)
	}
	return rows
}

// message returns the rows of a message. A limit of 0 means all of them.
func (m *model) message(text string, limit int) []row {
	var rows []row
	margin := mark("")
	for fact := range strings.FieldsFuncSeq(printable(text), func(r rune) bool { return r == '\n' }) {
		fact = strings.Join(strings.Fields(fact), " ")
		for line := range strings.SplitSeq(ansi.Wrap(fact, m.width-len(margin), ""), "\n") {
			rows = append(rows, row{text: margin + line})
		}
	}
	if limit > 0 {
		return cut(rows, limit)
	}
	return rows
}

// commands returns commands, which are wrapped instead of cut.
func (m *model) commands(label string, commands ...string) []row {
	var rows []row
	for _, command := range commands {
		for line := range strings.SplitSeq(ansi.Hardwrap(command, m.width-indent, true), "\n") {
			rows = append(rows, row{text: column(label) + line})
			label = ""
		}
	}
	return rows
}

// verdict is what pkg/diagnosis says about a cluster.
type verdict struct {
	severity diagnosis.Severity // of the worst finding
	isReady  bool
	text     string
}

func judge(c Cluster) verdict {
	v := verdict{isReady: len(c.State.Drivers) > 0, text: "all conditions are ok"}
	counts := map[diagnosis.Severity]int{}
	for _, d := range c.State.Drivers {
		v.isReady = v.isReady && diagnosis.Ready(d.Findings).Status == opv1.ConditionTrue
		for _, f := range d.Findings {
			counts[f.Severity]++
		}
	}
	var parts []string
	for _, severity := range diagnosis.Severities() {
		if counts[severity] > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", severity, counts[severity]))
			v.severity, v.text = cmp.Or(v.severity, severity), strings.Join(parts, "   ")
		}
	}
	switch {
	case c.Err != nil:
		v.severity, v.isReady, v.text = diagnosis.Problem, false, "no answer"
	case len(c.State.Drivers) == 0:
		v.severity, v.text = diagnosis.Progress, "starting"
	}
	return v
}

func (v verdict) title() string {
	if v.isReady {
		return "READY"
	}
	return "NOT READY"
}

func mark(severity diagnosis.Severity) string {
	return map[diagnosis.Severity]string{
		"": "    ", diagnosis.Problem: " x  ", diagnosis.Progress: " ~  ", diagnosis.Warning: " !  ",
	}[severity]
}

func style(severity diagnosis.Severity) ansi.Style {
	color := map[diagnosis.Severity]ansi.BasicColor{
		"": ansi.Green, diagnosis.Problem: ansi.Red, diagnosis.Progress: ansi.Yellow,
		diagnosis.Warning: ansi.Cyan,
	}[severity]
	return bold().ForegroundColor(color)
}

func bold() ansi.Style { return ansi.Style{}.Bold() }

// workloads returns the Deployment and the DaemonSets in the words of an administrator.
func (d *Driver) workloads() []string {
	var cells []string
	known := map[string]string{"Deployment": "controller", "DaemonSet": "nodes"}
	for _, w := range d.Workloads {
		name := known[w.Kind]
		if name == "" {
			name = w.Name
		}
		delete(known, w.Kind) // the second DaemonSet needs its name
		cells = append(cells, name+" "+w.status())
	}
	return cells
}

func (d *Driver) classes() []string {
	var cells []string
	for _, c := range d.Classes {
		cell := c.Name
		if c.IsDefault {
			cell += " (default)"
		}
		if c.IsGone {
			cell += " (share type is gone)"
		}
		cells = append(cells, cell)
	}
	return cells
}

// qualified returns the type of a condition, after the name of the driver if the type does not
// contain it.
func (d *Driver) qualified(conditionType string) string {
	if strings.Contains(strings.ToLower(conditionType), d.Name) {
		return conditionType
	}
	return d.Name + " " + conditionType
}
