package kubectl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/version"
)

const (
	// width is the number of columns of the output.
	width = 80
	// outputVersion is the apiVersion of what -o json and -o yaml print.
	outputVersion = "kubectl.csi.openstack.org/v1alpha1"
)

// result is what a command prints.
type result interface {
	// write prints it for people.
	write(out io.Writer, p palette)
}

func (s *session) show(kind string, r result, isProblem bool) error {
	if err := s.print(kind, r); err != nil || !isProblem {
		return err
	}
	return errProblem
}

// print prints a result as the flag --output says.
func (s *session) print(kind string, r result) error {
	if s.output != jsonOutput && s.output != yamlOutput {
		r.write(s.Out, palette(s.Color))
		return nil
	}
	text, err := toYAML(r)
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
		_ = json.Indent(&indented, escape(compact), "", "  ") // valid JSON
		text = append(indented.Bytes(), '\n')
	}
	_, err = s.Out.Write(text)
	return err
}

// toYAML encodes a value. sigs.k8s.io/yaml refuses texts with some control characters, which
// anybody can write into an object.
func toYAML(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(escape(text))
}

// escape replaces characters in JSON that cannot be printed by their escape sequences, because they
// could change the terminal.
func escape(text []byte) []byte {
	var escaped bytes.Buffer
	for _, r := range string(text) {
		if r <= 0xffff && r != '\n' && !unicode.IsPrint(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.Bytes()
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

func (p palette) link(out io.Writer, l Link) {
	if l.State == OK {
		l.Runbook = ""
	}
	if l.Next != "" {
		l.Text += ". " + l.Next
	}
	p.line(out, "  ", "  ", l)
}

// line prints a link with its sign between two texts.
func (p palette) line(out io.Writer, before, after string, l Link) {
	if l.Runbook != "" {
		l.Text += " " + version.Page("docs/runbooks.md#"+l.Runbook)
	}
	if l.Detail != "" {
		l.Text += "\n" + l.Detail
	}
	indent := len(before) + len("ok") + len(after)
	fmt.Fprintln(out, wrap(before+p.mark(l.State)+after, l.Text, indent))
}

// wrap breaks text into lines of at most width columns. The first starts with the prefix, which is
// as wide as the indent of the others. Words that are longer than a line stay whole. Lines of the
// text stay lines if there is an indent: without one, text of the cluster could look like a row.
func wrap(prefix, text string, indent int) string {
	lines := []string{printable(text)}
	if indent > 0 {
		lines = strings.Split(strings.TrimSpace(lines[0]), "\n")
	}
	var rows []string
	for _, line := range lines {
		row := ""
		for word := range strings.FieldsSeq(line) {
			if row != "" && indent+utf8.RuneCountInString(row+" "+word) > width {
				rows, row = append(rows, row), ""
			}
			row = strings.TrimPrefix(row+" "+word, " ")
		}
		rows = append(rows, row)
	}
	return prefix + strings.Join(rows, "\n"+strings.Repeat(" ", indent))
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
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Color: value == "" && term.IsTerminal(int(os.Stdout.Fd())),
	}
}

// printChange prints a report if more than its ages differs from the one that was shown last. It
// returns what was shown, without ages.
func (s *session) printChange(report *Status, shown string) (string, error) {
	var text bytes.Buffer
	o := *s.options
	o.Out = &text
	there := session{options: &o}
	if err := there.print("Status", report); err != nil {
		return shown, err
	}
	now := regexp.MustCompile(`(\d+[dhms])+|\s+`).ReplaceAllString(text.String(), " ")
	if now == shown {
		return shown, nil
	}
	if shown != "" && s.output == yamlOutput {
		fmt.Fprintln(s.Out, "---")
	} else if shown != "" {
		fmt.Fprintln(s.Out)
	}
	_, err := text.WriteTo(s.Out)
	return now, err
}
