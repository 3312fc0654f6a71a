package position

import "regexp"

var (
	values     = regexp.MustCompile(union("value"))
	expression = regexp.MustCompile(`\{\{|\$[({]?[A-Za-z_]`)
	template   = regexp.MustCompile(`(?s)^(?:(?:[^:]|:[^ ])*: )?[- $]*\{[{%]`)
)

// Placeholder returns what stands in place of a value: a text that a program encrypted, one that it
// would replace, or one that a person should have replaced; "" for other texts.
func Placeholder(value string) string { return in("value", values, value).What }

// FilledIn returns whether a tool replaces a text, or a part of it: it contains an expression of
// Go, of Helm, of Flux, or of a shell.
func FilledIn(text string) bool { return expression.MatchString(text) }

// IsTemplate returns true for a line whose value begins as an expression of Jinja, Helm or Go does.
func IsTemplate(line string) bool { return template.MatchString(line) }

// Template is a text with an expression of Jinja, Helm or Go in a line.
func Template(line int) Other {
	return Other{
		"a template that is not filled in", line, "render it first, and write its result. A value " +
			"that begins with { needs quotation marks",
	}
}
