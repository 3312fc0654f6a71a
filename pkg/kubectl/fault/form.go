package fault

import (
	_ "embed"
	"strings"
)

//go:embed forms.txt
var formats string

// form is a format of a component or a driver. {noun} stands for a name, {} for something without
// a noun, {error} for the error inside, and "{error}" for one that is quoted.
type form struct {
	by              Component
	operation, text string
}

// forms returns the formats of forms.txt.
func forms() []form {
	forms := make([]form, 0, strings.Count(formats, "\n"))
	var by Component
	for line := range strings.Lines(formats) {
		line = strings.TrimSuffix(line, "\n")
		operation, text, found := strings.Cut(line, "| ")
		switch {
		case strings.HasPrefix(line, "["):
			by = Component(strings.Trim(line, "[]"))
		case found && line[0] != '#':
			forms = append(forms, form{by, strings.TrimSpace(operation), text})
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
	// inner is the error inside. It may be empty.
	inner string
}

// Match returns the names of a text that has a format, such as "Volume {volume} could not be
// found.". A name has no line break and no ": "; the format explains all of the text.
func Match(format, text string) (map[Noun]string, bool) {
	m, found := match(format, text)
	names := map[Noun]string{}
	for _, n := range m.names {
		names[n.noun] = n.name
	}
	return names, found && m.inner == ""
}

func match(format, text string) (m matched, found bool) {
	for {
		literal, rest, more := strings.Cut(format, "{")
		if text, found = strings.CutPrefix(text, literal); !found {
			return m, false
		}
		if !more {
			return m, text == ""
		}
		noun, after, _ := strings.Cut(rest, "}")
		if noun == "error" {
			m.inner, found = cutInner(text, after, &m)
			return m, found
		}
		until, _, _ := strings.Cut(after, "{")
		name, found := cutName(text, until)
		if !found {
			return m, false
		}
		m.names = append(m.names, named{Noun(noun), name})
		text, format = text[len(name):], after
	}
}

// cutName returns what is before a literal: up to a closing quote or bracket, or one name.
func cutName(text, until string) (string, bool) {
	if until == "" {
		return text, isName(text)
	}
	window := text[:min(len(text), nameLimit)]
	if until[0] == '"' {
		for i := 0; i < len(window); i++ {
			switch window[i] {
			case '\\':
				i++
			case '"':
				return window[:i], true
			}
		}
		return "", false
	}
	i := strings.Index(window, until)
	if i < 0 {
		return "", false
	}
	return window[:i], strings.ContainsRune("]')", rune(until[0])) || isName(window[:i])
}

func isName(text string) bool {
	return text != "" && !strings.Contains(text, ": ") && !strings.ContainsAny(text, "\n{")
}

// cutInner returns the error inside of a form whose rest follows it.
func cutInner(text, rest string, m *matched) (string, bool) {
	if rest == "" {
		return text, true
	}
	if rest == `"` {
		plain := unquoteAll(`"` + text)
		return strings.TrimPrefix(plain, `"`), true
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

// wordsOf replaces what can be a name or an amount in a message that no form explains: what is in
// quotes or brackets, and words with digits or slashes.
func wordsOf(message string) string {
	var b strings.Builder
	for rest := message; rest != ""; {
		word := strings.TrimLeft(rest, " \n\t(=")
		b.WriteString(rest[:len(rest)-len(word)])
		rest = word
		if i := strings.IndexAny(rest, " \n\t(="); i >= 0 {
			word = rest[:i]
		}
		if end := quotedEnd(rest); end > 0 {
			b.WriteString("{}")
			rest = rest[end:]
			continue
		}
		if plain := strings.TrimRight(word, ".,;:)"); strings.ContainsAny(plain, "0123456789/") &&
			plain != "x509" {
			b.WriteString("{}" + word[len(plain):])
		} else {
			b.WriteString(word)
		}
		rest = rest[len(word):]
	}
	return b.String()
}

// quotedEnd returns where what is in quotes or brackets ends, 0 if the text begins with none.
func quotedEnd(text string) int {
	if text == "" {
		return 0
	}
	if i := strings.IndexByte("\"'[", text[0]); i >= 0 {
		if end := strings.IndexByte(text[1:], "\"']"[i]); end >= 0 {
			return end + 2
		}
	}
	return 0
}

// formOf returns a format without its nouns.
func formOf(format string) string {
	var b strings.Builder
	for {
		literal, rest, more := strings.Cut(format, "{")
		b.WriteString(literal)
		if !more {
			return b.String()
		}
		b.WriteString("{}")
		_, format, _ = strings.Cut(rest, "}")
	}
}
