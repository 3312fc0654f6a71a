package diagnosis

import (
	"regexp"
	"strings"
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

// Ends returns a text of at most a number of characters without what is between its beginning and
// its last third. It leaves no crumbs of words.
func Ends(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	const crumb = 6
	end := most / 3
	head, tail := string(runes[:most-end-1]), string(runes[len(runes)-end:])
	if i := strings.LastIndex(head, " "); i >= max(len(head)-crumb, 1) {
		head = head[:i+1]
	}
	if i := strings.Index(tail, " "); i >= 0 && i < min(crumb, len(tail)-1) {
		tail = tail[i+1:]
	}
	return head + "…" + tail
}
