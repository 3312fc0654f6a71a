package diagnosis

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxMessage is the maximum length of what a container or another component says.
const maxMessage = 256

// lastLine returns the last line without what klog writes before a message: it always differs.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return regexp.MustCompile(`^[IWEF]\d{4} [\d:.]+ +\d+ [^ \]]+\] `).
		ReplaceAllString(text[strings.LastIndex(text, "\n")+1:], "")
}

// Short returns one line of at most 256 characters, in which credentials are replaced. Errors say
// first what failed and last why, so both ends stay.
func Short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, secret := range []string{
		// A key and its value in text, YAML, or JSON, which may be escaped or a list.
		`((?:pass(?:word|wd|code)|secret|token)[\w-]*[\\"']*\s*[:=]\s*\[?)` +
			`(?:\\*["'].*?(?:[^\\]["']|$)|[^\s"',;&}\]]+)`,
		`(--[\w-]*(?:password|passcode|secret|token)\s+)\S+`,
		`((?:bearer|basic)\s+)\S+`,
	} {
		text = regexp.MustCompile("(?i)"+secret).ReplaceAllString(text, "${1}***")
	}
	text = regexp.MustCompile(`(://)\S+@`).ReplaceAllString(text, "${1}***@")
	return Ends(text, maxMessage)
}

// Ends returns a text of at most a number of characters: the beginning and the last third of a
// longer one. It cuts where a clause ends, else between words, and not within a quotation or
// brackets, which lose their marks if they are too long to stay whole.
func Ends(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	words := units(text, most/3)
	end, begin := 0, len(words)
	for room := most - most/3 - len(" … "); end < len(words); end++ {
		if room -= utf8.RuneCountInString(words[end]) + 1; room < 0 {
			break
		}
	}
	for room := most / 3; begin > end; begin-- {
		if room -= utf8.RuneCountInString(words[begin-1]) + 1; room < 0 {
			break
		}
	}
	if end == 0 { // one word that is too long
		return string(runes[:most-1]) + "…"
	}
	endsClause := func(word string) bool { return strings.ContainsAny(word[len(word)-1:], ":;,.") }
	for i := end; i > end/2; i-- {
		if endsClause(words[i-1]) {
			end = i
			break
		}
	}
	if i := slices.IndexFunc(words[begin-1:(begin+len(words))/2], endsClause); i >= 0 {
		begin += i
	}
	return strings.TrimSpace(strings.Join(words[:end], " ") + " … " +
		strings.Join(words[begin:], " "))
}

// unit matches a word, with a quotation or what is in brackets beside it.
var unit = regexp.MustCompile(
	`(?:"(?:\\.|[^"\\])*"|\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|\S)+`)

// units returns the words of a text. A quotation or what is in brackets is one word, with what is
// next to it, unless it is longer than a number of characters.
func units(text string, most int) (words []string) {
	marks := strings.NewReplacer(`"`, "", "(", "", ")", "", "[", "", "]", "", "{", "", "}", "")
	for _, word := range unit.FindAllString(text, -1) {
		if utf8.RuneCountInString(word) > most && strings.Contains(word, " ") {
			words = append(words, strings.Fields(marks.Replace(word))...)
		} else {
			words = append(words, word)
		}
	}
	return words
}
