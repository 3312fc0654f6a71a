package openstack

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/net/html"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

//go:embed answers.txt
var answers string

// known returns what the first row of a section of answers.txt says about a text, "" if no row
// matches. It contains nothing of the text.
func known(section, text string) (what, advice string) {
	const columns = 4
	for line := range strings.Lines(answers) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if row[0] == section && len(row) == columns && regexp.MustCompile(row[3]).MatchString(text) {
			return row[1], row[2]
		}
	}
	return "", ""
}

// start returns as much of an answer as is compared with answers.txt.
func start(body []byte) string {
	const longest = 64 << 10
	return string(body[:min(len(body), longest)])
}

// content returns what the body of a failed call is if it is no answer of an API, as the end of a
// clause, and what to do: the guess if the answer does not tell.
func content(err error, guess string) (with, advice string) {
	code, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	switch {
	case len(bytes.TrimSpace(code.Body)) == 0:
		return " without content", guess
	case json.Valid(code.Body):
		with, advice = known("object", start(code.Body))
	default:
		with, advice = foreign(code.ResponseHeader, code.Body)
	}
	if with != "" {
		with = " with " + with
	}
	return with, cmp.Or(advice, guess)
}

// foreign returns what an answer is that is no JSON, with its title, and what to do if known.
func foreign(header http.Header, body []byte) (what, advice string) {
	var text strings.Builder
	_ = header.Write(&text) // a Builder returns no error
	what, advice = known("page", strings.ReplaceAll(text.String(), "\r", "")+"\n"+start(body))
	what = cmp.Or(what, position.Recognize(body, position.Answer).What, "something other than JSON")
	if title := titleOf(body); title != "" {
		what += ` ("` + title + `")`
	}
	return what, advice
}

// titleOf returns the title of a page in HTML, "" if there is none.
func titleOf(body []byte) string {
	for page := html.NewTokenizer(strings.NewReader(start(body))); page.Next() != html.ErrorToken; {
		if name, _ := page.TagName(); string(name) == "title" && page.Next() == html.TextToken {
			return shown(string(page.Text()))
		}
	}
	return ""
}

// said returns the words of a service about a failed call, as a sentence, "" if there are none.
// Those about errors of servers and limits differ in each answer, and those of Keystone may repeat
// what a login contains.
func said(service string, err error) string {
	code, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if service == identityService || code.Actual >= http.StatusInternalServerError ||
		limitsRequests(err) {
		return ""
	}
	var answer map[string]json.RawMessage
	_ = json.Unmarshal(code.Body, &answer) // another text has no words
	tag := regexp.MustCompile(`<[^>]*>`)
	for _, name := range append(slices.Sorted(maps.Keys(answer)), "") {
		var fault struct {
			Message string `json:"message"`
		}
		text := cmp.Or(string(answer[name]), string(code.Body))
		if json.Unmarshal([]byte(text), &fault) == nil && fault.Message != "" {
			return `. It says "` + shown(tag.ReplaceAllString(fault.Message, " ")) + `"`
		}
	}
	return ""
}

// shown returns a title or a sentence of a server for messages. Words that may be numbers of
// requests, IDs or tokens differ in each answer.
func shown(title string) string {
	const longest, shortestNumber = 100, 8
	words := strings.FieldsFunc(title, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' })
	for i, word := range words {
		if len(word) >= shortestNumber && strings.ContainsAny(word, "0123456789") {
			words[i] = "..."
		}
	}
	text := []rune(strings.ReplaceAll(strings.Join(words, " "), `"`, "'"))
	return string(text[:min(len(text), longest)])
}
