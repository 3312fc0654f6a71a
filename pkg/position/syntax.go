package position

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Invalid is a line that is no YAML. It contains no values of the text.
type Invalid struct {
	// Line counts from 1; 0 means unknown.
	Line int
	// Key is the key of the line, if it is one of those that are known.
	Key string
	// Below is the path of the known keys around the line if its own key is not known.
	Below string
	// Advice is a sentence.
	Advice string
}

// String returns a predicate about the text.
func (i Invalid) String() string {
	var places []string
	if i.Key != "" {
		places = append(places, "at "+i.Key)
	}
	if i.Line > 0 {
		places = append(places, fmt.Sprintf("at line %d", i.Line))
	}
	if i.Key == "" && i.Below != "" {
		places = append(places, "below "+i.Below)
	}
	at := strings.Replace(strings.Join(places, ", "), ", at ", ", ", 1)
	return strings.TrimSpace("is not valid YAML "+at) + ". " + i.Advice
}

// FirstInvalid finds the first line that makes a text invalid YAML. The parser's errors name the
// first line of the surrounding mapping, which is usually line 1.
func FirstInvalid(text []byte, known []string) Invalid {
	number, line := firstInvalidLine(text)
	if number == 0 {
		return Invalid{Advice: "Check the indentation and the quotation marks"}
	}
	found := Invalid{Line: number, Below: around(text, number, known)}
	if earlier, before := wordsBefore(text, number); earlier > 0 {
		var own Invalid
		if block.MatchString(before) { // its text has no more spaces than its key
			found.Advice = "Indent the text with more spaces than the key before it"
			return found
		}
		if _, separated := own.split(before, known); own.Key != "" && !separated {
			return Invalid{
				Line: earlier, Key: own.Key, Advice: "Write a colon and a space between key and value",
			}
		}
	}
	if found.inBraces(line, known); found.Advice == "" {
		value, separated := found.split(strings.TrimLeft(strings.TrimSpace(line), "- "), known)
		found.Advice = adviceAbout(line, value, separated)
	}
	return found
}

// block matches the line before a text of several lines.
var block = regexp.MustCompile(`:\s+[|>][-+0-9]*$`)

// around returns the path of the known keys that a line is below, by the indentation of the lines
// before it, as in types.include.
func around(text []byte, number int, known []string) string {
	lines := strings.Split(string(text), "\n")[:number]
	indented := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	last := lines[number-1]
	indent := indented(last)
	if strings.HasPrefix(strings.TrimSpace(last), "-") {
		indent++ // an item may have the indentation of its key
	}
	var path []string
	for _, line := range slices.Backward(lines[:number-1]) {
		content := strings.TrimSpace(line)
		if content == "" || content[0] == '#' || indented(line) >= indent {
			continue
		}
		indent = indented(line)
		if m := keyAndValue.FindStringSubmatch(content); m != nil && slices.Contains(known, m[1]) {
			path = append([]string{m[1]}, path...)
		}
	}
	return strings.Join(path, ".")
}

// wordsBefore returns the last line with content before another one, without its indentation.
func wordsBefore(text []byte, number int) (int, string) {
	lines := bytes.Split(text, []byte("\n"))
	for i := min(number-1, len(lines)) - 1; i >= 0; i-- {
		content := string(bytes.TrimLeft(bytes.TrimSpace(lines[i]), "- "))
		if content != "" && content[0] != '#' {
			return i + 1, content
		}
	}
	return 0, ""
}

var keyAndValue = regexp.MustCompile(`^["']?([A-Za-z_][\w.-]*)["']?(\s*:(?:\s+|$)|\s*)(.*)$`)

// split returns the value of a line or of a part of it, and whether a colon precedes the value. It
// sets the key if it is known.
func (i *Invalid) split(content string, known []string) (value string, separated bool) {
	m := keyAndValue.FindStringSubmatch(content)
	if m != nil && slices.Contains(known, m[1]) {
		i.Key = m[1]
		return m[3], strings.Contains(m[2], ":")
	}
	if _, after, ok := strings.Cut(content, ": "); ok {
		return after, true
	}
	return content, true
}

// inBraces sets key and advice for a line with several keys in braces, if one of them is wrong.
func (i *Invalid) inBraces(line string, known []string) {
	if !regexp.MustCompile(`:\s*[{\[]\s*\S|^\s*{`).MatchString(line) || IsTemplate(line) {
		return
	}
	for part := range strings.FieldsFuncSeq(line, func(r rune) bool {
		return strings.ContainsRune("{}[],", r)
	}) {
		var found Invalid
		value, separated := found.split(strings.TrimSpace(part), known)
		advice := adviceAbout("", strings.TrimSpace(value), separated)
		if found.Key != "" && advice != usual {
			i.Key, i.Advice = found.Key, advice
			return
		}
	}
}

// adviceAbout returns what to do about a line that is no YAML.
func adviceAbout(line, value string, separated bool) string {
	first := (value + " ")[:1]
	inner := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(value, first), first), " ")
	control := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) }
	switch {
	case !utf8.ValidString(line):
		return "It contains bytes that are not UTF-8: save the file as UTF-8"
	case strings.ContainsFunc(line, control):
		return "It contains a control character: remove it, or write it in double quotation marks, " +
			`as in "\x07"`
	case IsTemplate(line):
		return "It is a template that is not filled in: render it first. A text that begins with { " +
			"needs quotation marks"
	case strings.Contains(line[:len(line)-len(strings.TrimLeft(line, " \t"))], "\t"):
		return "It is indented with a tab: use spaces"
	case !separated:
		return "Write a colon and a space between key and value"
	case first == "*":
		return "A value that begins with * refers to an anchor (&), and none of this name precedes " +
			"it. Repeat the text, or write quotation marks around it"
	case strings.Contains("&!|>%@`", first):
		return "A value that begins with " + first + " needs quotation marks"
	case strings.Contains("[{", first):
		return "Close the bracket, or write the value in quotation marks"
	case first == `"` && len(value) > 1 && strings.HasSuffix(value, first) &&
		strings.Contains(inner, `\`) && !strings.Contains(inner, first):
		return `Within double quotation marks write two backslashes for one`
	case strings.Contains(`"'`, first) &&
		(len(value) == 1 || !strings.HasSuffix(value, first) || strings.ContainsAny(inner, first+`\`)):
		return "Close the quotation mark at the end of the value; within single quotation marks write " +
			"two for one, within double ones a backslash before it"
	case !strings.Contains(`"'`, first) && strings.Contains(value+" ", ": "):
		return "A value with a colon and a space, or a colon at its end, needs quotation marks"
	}
	return usual
}

// usual is the advice about a line whose mistake is not known.
const usual = "Write key: value, indented with spaces as the other keys of its level"

func firstInvalidLine(text []byte) (int, string) {
	const maxParsed = 256 << 10 // bytes of all attempts
	lines := bytes.SplitAfter(text, []byte("\n"))
	end, parsed := len(text), 0
	for last := len(lines) - 1; last >= 0; last-- {
		end -= len(lines[last])
		if parsed += end; parsed > maxParsed {
			break
		}
		var ignored yaml.Node
		if yaml.Unmarshal(text[:end], &ignored) == nil {
			return last + 1, strings.TrimRight(string(lines[last]), "\r\n")
		}
	}
	return 0, ""
}
