package fault

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed forms.txt
var formats string

// nameLimit is how many bytes a name has at most. URLs are the longest ones.
const nameLimit = 1 << 10

// form is a line of forms.txt.
type form struct {
	by              Component
	leaf            Leaf
	operation, text string
	// begin is text up to the first noun.
	begin string
}

// forms returns the formats of forms.txt.
func forms() []form {
	forms := make([]form, 0, strings.Count(formats, "\n"))
	var section form
	for line := range strings.Lines(formats) {
		line = strings.TrimSuffix(line, "\n")
		operation, text, found := strings.Cut(line, "| ")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			by, leaf, _ := strings.Cut(strings.Trim(line, "[]"), ": ")
			section.by, section.leaf = Component(strings.TrimSuffix(by, ":")), Leaf(leaf)
		case found:
			section.operation = strings.TrimSpace(operation)
			section.text = strings.ReplaceAll(text, `\n`, "\n")
			section.begin, _, _ = strings.Cut(section.text, "{")
			forms = append(forms, section)
		}
	}
	return forms
}

type named struct {
	noun Noun
	name string
}

// matched is what a form contains.
type matched struct {
	names []named
	// inner is the error inside, if nested is set.
	inner  string
	nested bool
}

// match compares a text with a format, which must explain all of it.
func match(format, text string) (m matched, found bool) {
	for {
		literal, rest, more := strings.Cut(format, "{")
		if text, found = strings.CutPrefix(text, literal); !found || !more {
			return m, found && text == ""
		}
		noun, after, _ := strings.Cut(rest, "}")
		if noun == "error" {
			m.nested = true
			m.inner, found = m.cutInner(text, after)
			return m, found
		}
		name, found := cutName(Noun(noun), text, after)
		if !found {
			return m, false
		}
		m.names = append(m.names, named{Noun(noun), name})
		text, format = text[len(name):], after
	}
}

// cutName returns what is before the literal with which the rest of a format begins: up to a
// closing quote or bracket, or one name. The last one of a format is all of the text.
func cutName(noun Noun, text, rest string) (string, bool) {
	until, _, _ := strings.Cut(rest, "{")
	if until == "" {
		return text, isName(noun, text)
	}
	window := text[:min(len(text), nameLimit)]
	i := strings.Index(window, until)
	switch until[0] {
	case '"':
		i = closing(window)
		return window[:max(i, 0)], i >= 0
	case ']', ')', '\'':
		return window[:max(i, 0)], i >= 0
	}
	return window[:max(i, 0)], i >= 0 && isName(noun, window[:i])
}

// isName returns whether a text can be what a noun stands for. Few names contain spaces.
func isName(noun Noun, text string) bool {
	switch noun {
	case "", "arguments", "exit", "limited", "message", "output", "requested", "rest", "used":
		return true
	case Name, Status, Volumes:
		return text != "" && !strings.Contains(text, "\n") && !strings.Contains(text, ": ")
	}
	return text != "" && !strings.ContainsAny(text, " \n\"")
}

// closing returns where the next quote is that is not escaped, -1 if there is none.
func closing(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// cutInner returns the error inside of a format whose rest follows it.
func (m *matched) cutInner(text, rest string) (string, bool) {
	switch rest {
	case "":
		return text, true
	case `"`:
		if plain := unquote(`"` + text); plain != `"`+text {
			return plain, true
		}
		return unescape(text), true // its end is cut
	}
	literal, _, _ := strings.Cut(rest, "{")
	i := strings.LastIndex(text, literal)
	if i < 0 {
		return "", false
	}
	tail, found := match(rest, text[i:])
	m.names = append(m.names, tail.names...)
	return text[:i], found
}

// errnos are the texts of the error numbers of Linux in Go, as nodes run Linux.
//
//go:embed errnos.txt
var errnos string

// isErrno returns whether a text is that of an error number of Linux.
func isErrno(text string) bool { return slices.Contains(strings.Split(errnos, "\n"), text) }
