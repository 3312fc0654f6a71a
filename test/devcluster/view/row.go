package view

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// indent is the width of the first column.
const indent = 11

// row is a line of the terminal. Its text is plain: View makes it safe, cuts it and adds the style.
type row struct {
	text  string
	style ansi.Style
}

// column returns the first column.
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
