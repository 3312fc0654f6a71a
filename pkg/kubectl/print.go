package kubectl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

const (
	// width is the number of columns of the output.
	width = 80
	// outputVersion is the apiVersion of what -o json and -o yaml print.
	outputVersion = "kubectl.csi.openstack.org/v1alpha1"
)

// print writes a result as the flag --output says. write prints it for people.
func (s *session) print(kind string, result any, write func(io.Writer, palette)) error {
	if s.output != jsonOutput && s.output != yamlOutput {
		write(s.Out, palette(s.Color))
		return nil
	}
	text, err := yaml.Marshal(result)
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	text = append(fmt.Appendf(nil, "apiVersion: %s\nkind: %s\n", outputVersion, kind), text...)
	if s.output == jsonOutput {
		compact, err := yaml.YAMLToJSON(text)
		if err != nil {
			return fmt.Errorf("encoding the result: %w", err)
		}
		var indented bytes.Buffer
		_ = json.Indent(&indented, compact, "", "  ") // valid JSON
		text = append(indented.Bytes(), '\n')
	}
	_, err = s.Out.Write(text)
	return err
}

// palette is whether the output is colored.
type palette bool

// mark returns the sign of a severity or a state in two columns.
func (p palette) mark(state State) string {
	const red, yellow, green = "31", "33", "32"
	mark := map[State]struct{ sign, color string }{
		Problem: {"!!", red}, Progress: {"~~", yellow}, Warning: {"! ", yellow}, NotVisible: {"??", ""},
		OK: {"ok", green},
	}[state]
	if !p || mark.color == "" {
		return mark.sign
	}
	return "\x1b[" + mark.color + "m" + mark.sign + "\x1b[0m"
}

// finding prints a finding with its driver and age.
func (p palette) finding(out io.Writer, f Finding, age string) {
	const indent = 16
	prefix := p.mark(f.Severity) + fmt.Sprintf(" %-6s  %-4s ", f.Driver, age)
	fmt.Fprintln(out, wrap(prefix, withRunbook(f.Message, f.Runbook), indent))
}

// link prints a link of a chain.
func (p palette) link(out io.Writer, l Link) {
	const indent = 6
	if l.State == OK {
		l.Runbook = ""
	}
	fmt.Fprintln(out, wrap("  "+p.mark(l.State)+"  ", withRunbook(l.Text, l.Runbook), indent))
}

func withRunbook(text, runbook string) string {
	if runbook == "" {
		return text
	}
	return text + " #" + runbook
}

// wrap breaks text into lines of at most width columns. The first starts with the prefix, which is
// as wide as the indent of the others. Words that are longer than a line stay whole. Lines of the
// text stay lines if there is an indent: without one, text of the cluster could look like a row.
func wrap(prefix, text string, indent int) string {
	next := "\n" + strings.Repeat(" ", indent)
	lines := []string{printable(text)}
	if indent > 0 {
		lines = strings.Split(strings.TrimSpace(lines[0]), "\n")
	}
	for i, line := range lines {
		used := indent
		var out strings.Builder
		for j, word := range strings.Fields(line) {
			length := utf8.RuneCountInString(word)
			switch {
			case j == 0:
			case used+1+length > width:
				out.WriteString(next)
				used = indent
			default:
				out.WriteString(" ")
				used++
			}
			out.WriteString(word)
			used += length
		}
		lines[i] = out.String()
	}
	return prefix + strings.Join(lines, next)
}

// writeNotVisible prints the kinds that could not be read, if there are any.
func writeNotVisible(out io.Writer, kinds []string) {
	if len(kinds) > 0 {
		fmt.Fprintln(out, wrap("", "Not visible: "+strings.Join(kinds, ", ")+".", 0))
	}
}

// printable replaces characters that could control a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// plural returns the plural of a kind.
func plural(kind string) string {
	kind = strings.TrimSuffix(kind, "List")
	if strings.HasSuffix(kind, "s") {
		return kind + "es"
	}
	return kind + "s"
}

// Standard returns the streams of the process. Out is colored on a terminal, unless the variable
// NO_COLOR is set (https://no-color.org).
func Standard(lookup func(string) (string, bool)) Streams {
	value, _ := lookup("NO_COLOR")
	return Streams{
		Out: os.Stdout, Err: os.Stderr,
		Color: value == "" && term.IsTerminal(int(os.Stdout.Fd())),
	}
}
