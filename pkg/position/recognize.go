package position

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Other is what a text is that has another format than its reader expects. It contains nothing of
// the text but the names of kinds and of keys.
type Other struct {
	// What is the name of the format, such as "an openrc file"; "" if it is unknown.
	What string
	// Line is the line that shows the format, from 1; 0 means the whole text.
	Line int
	// Advice is what to do, "" if the reader knows it.
	Advice string
}

// Carrier is what a text is in: for base64, it says what else writes the text itself.
type Carrier string

// Carriers. A ConfigMap has no stringData.
const (
	Secret    Carrier = ", or use stringData, or kubectl create --from-file"
	ConfigMap Carrier = ", or use kubectl create configmap --from-file"
	Answer    Carrier = ""
)

// Formats that readers compare.
const (
	Certificate = "a certificate in PEM"
	CloudsYAML  = "a clouds.yaml"
	OpenRC      = "an openrc file"
	OperatorYML = "an operator.yaml"
	OtherValues = "the values of another chart"
	// Settings are those of a cloud.conf and of similar files.
	Settings = "a file with settings as name = value"
)

// Instead returns a predicate about a text that should have another format.
func (o Other) Instead(of, expected string) string {
	at := ""
	if o.Line > 0 {
		at = fmt.Sprintf(" (line %d)", o.Line)
	}
	not := ", not " + of
	if strings.HasPrefix(o.What, of+" ") {
		not = "" // it is one, with something around it
	}
	return fmt.Sprintf("is %s%s%s: %s", o.What, at, not, cmp.Or(o.Advice, expected))
}

// Recognize returns what a text is by its structure. Readers call it about what they cannot read.
func Recognize(text []byte, in Carrier) Other {
	const longest = 128 << 10 // of the texts that are read
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if len(text) > longest {
		return Other{}
	}
	for _, find := range []func([]byte) Other{
		binary, escaped, wrapped, byLine, byTree, byJSON, in.encoded, byWord,
	} {
		if found := find(text); found.What != "" {
			return found
		}
	}
	return Other{}
}

const byteOrderMark = "\ufeff"

//go:embed formats.txt
var formats string

// The patterns of the sections of formats.txt, with a group for each row.
var (
	begins = regexp.MustCompile(union("begin"))
	firsts = regexp.MustCompile(union("first"))
	lines  = regexp.MustCompile(union("line"))
	tops   = regexp.MustCompile(union("top"))
	words  = regexp.MustCompile(union("word"))

	protocols = regexp.MustCompile(union("protocol"))
)

// rows returns the columns of a section of formats.txt.
func rows(section string) (found [][]string) {
	const columns = 4
	for line := range strings.Lines(formats) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if row[0] == section && len(row) == columns {
			found = append(found, row)
		}
	}
	return found
}

func union(section string) string {
	var patterns []string
	for _, row := range rows(section) {
		patterns = append(patterns, "("+row[3]+")")
	}
	return "(?s)" + strings.Join(patterns, "|")
}

// in returns the format of the first row of a section that matches a text.
func in(section string, patterns *regexp.Regexp, text string) Other {
	match := patterns.FindStringSubmatchIndex(text)
	if match == nil {
		return Other{}
	}
	for i, row := range rows(section) {
		if match[2*i+2] >= 0 {
			return Other{What: row[1], Advice: strings.TrimPrefix(row[2], "-")}
		}
	}
	return Other{}
}

// binary recognizes files that are no text.
func binary(text []byte) Other { return in("begin", begins, start(text)) }

// Protocol returns which protocol a server speaks, by its first bytes, as in "with TLS".
func Protocol(text []byte) string { return in("protocol", protocols, start(text)).What }

// start returns the first bytes, each as a character.
func start(text []byte) string {
	var characters []rune
	for _, one := range text[:min(len(text), 64)] {
		characters = append(characters, rune(one))
	}
	return string(characters)
}

var (
	setting = regexp.MustCompile(`^[\w.-]+\s*=\s*[^=\s]`)
	yamlKey = regexp.MustCompile(`^(?:- )?["']?[\w.-]+["']?:(?:\s|$)`)
)

// byLine recognizes formats by their lines.
func byLine(text []byte) Other {
	number, settings, keys, first := 0, 0, 0, 0
	for line := range bytes.Lines(text) {
		number++
		content := strings.TrimSpace(string(line))
		if content == "" || content[0] == ';' || content[0] == '#' {
			continue
		}
		if IsTemplate(content) {
			return Template(number)
		}
		found := in("line", lines, content)
		if first == 0 && found.What == "" {
			found = in("first", firsts, content)
		}
		if first = cmp.Or(first, number); found.What != "" {
			found.Line = number
			return found
		}
		if setting.MatchString(content) {
			settings++
		}
		if yamlKey.MatchString(content) {
			keys++
		}
	}
	if settings == 0 || keys > settings { // it is YAML, perhaps with a list in brackets
		return Other{}
	}
	return Other{Settings + ", such as a cloud.conf", first, ""}
}

var jsonKey = regexp.MustCompile(`"([A-Za-z_][A-Za-z0-9_.-]{0,62})"\s*:`)

// byJSON recognizes JSON that is cut or has a mistake, and names the last key before it.
func byJSON(text []byte) Other {
	var ignored any
	err := json.NewDecoder(bytes.NewReader(text)).Decode(&ignored)
	if err == nil || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) || !jsonKey.Match(text) {
		return Other{}
	}
	at, what := len(text), "JSON with a mistake"
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = min(at, int(syntax.Offset))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		what = "JSON without its end"
	}
	before := bytes.TrimRight(text[:at], "\n")
	if keys := jsonKey.FindAllSubmatch(before, -1); len(keys) > 0 {
		what += " after the key " + string(keys[len(keys)-1][1])
	}
	return Other{what, 1 + bytes.Count(before, []byte("\n")), "correct it, or write YAML"}
}

// encoded recognizes base64 of a text or of a file.
func (c Carrier) encoded(text []byte) Other {
	const shortest = 16
	plain := Decoded(string(text))
	if len(plain) < shortest {
		return Other{}
	}
	inner := binary(plain)
	advice := "decode it with base64 -d, and " + inner.Advice
	if utf8.Valid(plain) && bytes.ContainsAny(plain, ":\n={") {
		inner = Recognize(plain, c)
		inner.What = cmp.Or(inner.What, "text")
		advice = "write the decoded text" + string(c)
	}
	switch inner.What {
	case "", "binary": // as any word
		return Other{}
	case "a certificate in DER":
		advice = "add the lines -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----"
	}
	return Other{"base64 of " + inner.What, 0, advice}
}

// Decoded returns what a text in base64 encodes, nil for another text. It may lack padding or its
// end, and be in quotation marks or in the alphabet of URLs.
func Decoded(text string) []byte {
	text = strings.Trim(strings.Join(strings.Fields(text), ""), "\"'=%") // a shell shows %
	text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	const group = 4 // characters for three bytes
	if len(text)%group == 1 {
		text = text[:len(text)-1]
	}
	plain, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return plain
}

// byWord recognizes a text of one word.
func byWord(text []byte) Other {
	word := strings.TrimSpace(string(text))
	if strings.ContainsAny(word, " \t\n") {
		return Other{}
	}
	found := in("word", words, word)
	if found.What == "" {
		found = Other{What: Placeholder(word), Advice: "write the text itself"}
	}
	found.Line = 1
	return found
}
