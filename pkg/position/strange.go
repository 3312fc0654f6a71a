package position

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// beforeValue matches what precedes a value in a line of YAML or of a file with settings.
var beforeValue = regexp.MustCompile(`^[^A-Za-z0-9]*[\w.-]*["']?\s*[:=]?\s*`)

// Strange returns the line of the first character of a text that looks like another one or like
// none, and a predicate about the line; 0 if there is none. Of values, which may be secret, it
// considers only the ends. Most texts with such characters are valid, so only readers that refuse a
// text name them.
func Strange(text string) (number int, contains string) {
	text = strings.TrimPrefix(text, byteOrderMark)
	if cr := strings.Index(text, "\r"); cr >= 0 && !strings.Contains(text, "\n") {
		return 1, "ends with U+000D (a carriage return) alone: end lines with U+000A (a line feed)"
	}
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if content := strings.TrimSpace(line); content == "" || strings.ContainsAny(content[:1], "#;") {
			continue
		}
		start, before := len(beforeValue.FindString(line)), 'a'
		for at, char := range line {
			_, size := utf8.DecodeRuneInString(line[at:])
			behind := line[at+size:]
			after, _ := utf8.DecodeRuneInString(behind)
			if (at <= start || behind == "") && strange(before, char, after) {
				return number, fmt.Sprintf("contains %s in column %d: replace it, or remove it",
					Character(char), utf8.RuneCountInString(line[:at])+1)
			}
			before = char
		}
	}
	return 0, ""
}

// strange returns whether a character is no letter, digit or sign of this script, but looks like
// one or like none.
func strange(before, char, after rune) bool {
	ascii := func(r rune) bool { return r <= unicode.MaxASCII && unicode.IsLetter(r) }
	foreign := unicode.IsLetter(char) && !unicode.Is(unicode.Latin, char)
	return char != ' ' && char != '-' && char != '\t' &&
		(unicode.In(char, unicode.C, unicode.Z, unicode.Pi, unicode.Pf, unicode.Pd) ||
			isFullWidth(char) || foreign && (ascii(before) || ascii(after)))
}

// isFullWidth returns whether a character is a full-width form of one in ASCII.
func isFullWidth(char rune) bool { return char >= '\uff01' && char <= '\uff5e' }

// Character returns the code point of a character and what kind it is, for messages.
func Character(char rune) string {
	kind := "a character outside ASCII"
	switch {
	case char == ' ':
		kind = "a space"
	case isFullWidth(char):
		kind = fmt.Sprintf("the full-width form of %c", char-'\uff01'+'!')
	case unicode.Is(unicode.Zs, char):
		kind = "a space other than U+0020"
	case unicode.In(char, unicode.Zl, unicode.Zp):
		kind = "a separator of lines"
	case unicode.Is(unicode.Cc, char):
		kind = "a control character"
	case unicode.Is(unicode.C, char):
		kind = "an invisible character"
	case unicode.In(char, unicode.Pi, unicode.Pf):
		kind = "a quotation mark of a word processor"
	case unicode.Is(unicode.Pd, char):
		kind = "a dash other than -"
	case unicode.IsLetter(char):
		for name, script := range unicode.Scripts {
			if unicode.Is(script, char) {
				kind = "a letter of the script " + name
			}
		}
	}
	return fmt.Sprintf("%U (%s)", char, kind)
}
