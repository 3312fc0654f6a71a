package cinder

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// driverText returns the user's text as the driver can read it. It changes only texts that the
// driver would refuse, and keeps the number of each line. A text that it cannot correct is a
// *SyntaxError; driverText returns it too.
//
// Earlier operators read the administrator's text with an ini parser, and wrote it as gcfg.
func driverText(user []byte) ([]byte, error) {
	const size = 32 << 10 // checking a setting takes many times the memory of its text
	if err := position.Fits(user, size); err != nil {
		return nil, &SyntaxError{1, "the text " + err.Error()}
	}
	text := bytes.TrimPrefix(user, []byte(byteOrderMark))
	if check(text) == nil {
		return text, nil
	}
	text = respelled(text)
	fault := check(text)
	if fault == nil {
		return text, nil
	}
	if other := otherFile(user); other != nil {
		fault = other
	}
	fault.Problem += strange(user)
	return text, fault
}

// strange names a character of a text that looks like another one, as another sentence.
func strange(user []byte) string {
	line, contains := position.Strange(string(user))
	if line == 0 {
		return ""
	}
	return fmt.Sprintf(". Line %d %s", line, contains)
}

// otherFile returns the error about a text that is no cloud.conf, nil for another text.
func otherFile(user []byte) *SyntaxError {
	other := position.Recognize(user, position.ConfigMap)
	tree, err := position.Tree(user, len(user))
	if err == nil && other.What == "" && !tree.IsZero() && tree.Content[0].Kind == yaml.MappingNode {
		other.What = "YAML or JSON"
	}
	if other.What == "" || strings.HasPrefix(other.What, position.Settings) ||
		firstOutside(user) == 0 {
		return nil
	}
	line := max(other.Line, 1)
	other.Line = 0 // the error has it
	return &SyntaxError{line, "it " + other.Instead("a cloud.conf", consists)}
}

// consists says what a cloud.conf consists of.
const consists = "write [" + userSection + "] and, below it, settings such as rescan-on-resize = " +
	"true"

// check returns a *SyntaxError if the driver would refuse the text.
func check(text []byte) *SyntaxError {
	if fault := checkSyntax(text); fault != nil {
		return fault
	}
	for _, e := range entriesOf(text) {
		if !e.setting() {
			continue
		}
		if _, refused := e.remark(); refused != "" {
			return &SyntaxError{e.line, refused}
		}
	}
	return nil
}

// respelled removes what is not in the user's section, except headers. In the section it replaces
// "name: value", and removes backticks around values.
func respelled(text []byte) []byte {
	// The patterns are here because most processes never need them.
	header := regexp.MustCompile(`^\s*\[`)
	userHeader := regexp.MustCompile(`(?i)^\s*\[\s*` + userSection + `\s*\]`)
	colon := regexp.MustCompile(`^(\s*\pL[\pL\pN-]*\s*):`)
	backticks := regexp.MustCompile("^(\\s*\\pL[\\pL\\pN-]*\\s*=\\s*)`([^`\"\\\\;#]*)`")
	inside, continued := false, false
	var result []byte
	for line := range bytes.Lines(text) {
		isHeader := !continued && header.Match(line)
		if isHeader {
			inside = userHeader.Match(line)
		}
		switch {
		case inside && !continued && !isHeader:
			assigned := colon.ReplaceAll(line, []byte("$1="))
			result = append(result, backticks.ReplaceAll(assigned, []byte("$1$2"))...)
		case inside || isHeader:
			result = append(result, line...)
		default:
			result = append(result, '\n')
		}
		continued = bytes.HasSuffix(bytes.TrimSpace(line), []byte(`\`)) &&
			!bytes.ContainsAny(line, ";#")
	}
	return result
}

// firstOutside returns the number of the first line with a setting before the first section, or 0.
func firstOutside(user []byte) int {
	number := 0
	for line := range bytes.Lines(bytes.TrimPrefix(user, []byte(byteOrderMark))) {
		number++
		switch content := bytes.TrimSpace(line); {
		case len(content) == 0 || content[0] == ';' || content[0] == '#':
		case content[0] == '[':
			return 0
		default:
			return number
		}
	}
	return 0
}
