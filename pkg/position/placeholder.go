package position

import (
	"bytes"
	"regexp"
	"slices"
)

var (
	values     = regexp.MustCompile(union("value"))
	expression = regexp.MustCompile(`\{\{|\$[({]?[A-Za-z_]`)
	filledIn   = regexp.MustCompile(`(?m)^([ \t]*(?:- +)*(?:[^\s:#{]+:[ \t]+)?)` +
		`(\{\{.*\}\}(?:[^\s#]*[^\s#:])?)([ \t]*(?:#.*)?)$`)
	template = regexp.MustCompile(`(?s)^(?:(?:[^:]|:[^ ])*: )?[- $]*\{[{%]`)
)

// Placeholder returns what stands in place of a value: a text that a program encrypted, one that it
// would replace, or one that a person should have replaced; "" for other texts.
func Placeholder(value string) string { return in("value", values, value).What }

// FilledIn returns whether a tool replaces a text, or a part of it: it contains an expression of
// Go, of Helm, of Flux, or of a shell.
func FilledIn(text string) bool { return expression.MatchString(text) }

// Substituted returns a text, with the same lines, in which expressions of Go or Helm are texts as
// values, and comments on lines of their own.
func Substituted(text []byte) []byte {
	return filledIn.ReplaceAllFunc(text, func(line []byte) []byte {
		part := filledIn.FindSubmatch(line)
		if len(bytes.TrimSpace(part[1])) == 0 {
			return slices.Concat(part[1], []byte("# "), part[2], part[3])
		}
		value := bytes.ReplaceAll(part[2], []byte("'"), []byte("''"))
		return slices.Concat(part[1], []byte("'"), value, []byte("'"), part[3])
	})
}

// IsTemplate returns true for a line whose value begins as an expression of Jinja, Helm or Go does.
func IsTemplate(line string) bool { return template.MatchString(line) }

// Template is a text with an expression of Jinja, Helm or Go in a line.
func Template(line int) Other {
	return Other{
		"a template that is not filled in", line, "render it first, and write its result. A text " +
			"that begins with { needs quotation marks",
	}
}
