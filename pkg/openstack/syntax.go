package openstack

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
)

// invalidYAML says which line makes a text invalid YAML, and what to do. It contains no values.
func invalidYAML(text []byte) string {
	number, line := firstInvalidLine(text)
	if number == 0 {
		return "is not valid YAML. Check the indentation and the quotation marks"
	}
	indentation := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	key, value := "", strings.TrimSpace(line)
	m := regexp.MustCompile(`^([a-z_]+)(\s*:(?:\s+|$)|\s*)(.*)$`).FindStringSubmatch(value)
	separated := true
	if m != nil && slices.Contains(known(), m[1]) {
		key, value, separated = m[1], m[3], strings.Contains(m[2], ":")
	}
	return fmt.Sprintf("is not valid YAML at %sline %d. %s", strings.TrimPrefix(key+", ", ", "),
		number, adviceAbout(line, indentation, value, separated))
}

// known returns the keys of a clouds.yaml that messages may repeat although the text is broken.
func known() []string {
	return slices.Concat(fields[clientconfig.Clouds](), fields[clientconfig.Cloud](),
		fields[clientconfig.AuthInfo]())
}

// adviceAbout returns what to do about a line that is no YAML.
func adviceAbout(line, indentation, value string, separated bool) string {
	control := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) }
	switch {
	case !utf8.ValidString(line):
		return "It contains bytes that are not UTF-8: save the file as UTF-8"
	case strings.ContainsFunc(line, control):
		return "It contains a control character: write it in double quotation marks, as in \"\\x07\""
	case strings.Contains(indentation, "\t"):
		return "It is indented with a tab: use spaces"
	case !separated:
		return "Write a colon and a space between key and value"
	case value != "" && strings.ContainsRune("*&!|>%@`", rune(value[0])):
		return "A value that begins with " + value[:1] + " needs quotation marks"
	case value != "" && strings.ContainsRune(`"'`, rune(value[0])) &&
		(len(value) == 1 || !strings.HasSuffix(value, value[:1])):
		return "Close the quotation mark at the end of the value; within single quotation marks write " +
			"two for one, within double ones a backslash before it"
	}
	return "Write key: value, indented with spaces as the other keys of its level. Check the " +
		"quotation marks, which a value with a colon and a space needs"
}

// firstInvalidLine finds the first line that makes the text invalid YAML, and its number. The
// parser's errors name the first line of the surrounding mapping, which is usually line 1.
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
