package position

import (
	"cmp"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxOurs is the size of the largest of our files in YAML, in bytes.
const maxOurs = 128 << 10

func isOurs(what string) bool { return what == CloudsYAML || what == OperatorYML }

// escaped recognizes our files in a text that a program has escaped: as one text with \n in place
// of line breaks, for HTML, or with the colours of a terminal.
func escaped(text []byte) Other {
	if len(text) > maxOurs || mappingOf(text) != nil {
		return Other{}
	}
	plain := strings.TrimSpace(string(text))
	quotation := regexp.MustCompile(`(?s)^(?:[\w.-]+\s*[=:]\s*)?(["'])(.*)["']$`)
	quoted := quotation.ReplaceAllString(plain, "$2")
	if !strings.Contains(quoted, "\n") {
		quoted = strings.NewReplacer(`\r`, "", `\n`, "\n", `\"`, `"`, `\\`, `\`).Replace(quoted)
	}
	unescaped := html.UnescapeString(plain)
	if unescaped != plain {
		unescaped = strings.ReplaceAll(unescaped, "\u00a0", " ")
	}
	for _, attempt := range [][3]string{
		{
			quoted, "as one text in quotation marks or with \\n in place of line breaks",
			"write the text itself, with its line breaks and without quotation marks around it",
		},
		{
			unescaped, "escaped for HTML",
			"write the characters themselves, such as \" in place of &quot;",
		},
		{
			regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(plain, ""),
			"with the colours of a terminal", "print it without them",
		},
	} {
		if attempt[0] == plain {
			continue
		}
		if inner := Recognize([]byte(attempt[0]), ""); isOurs(inner.What) {
			return Other{inner.What + " " + attempt[1], inner.Line, attempt[2]}
		}
	}
	return Other{}
}

// mappingOf returns the tree of a text that is a mapping, nil for another text.
func mappingOf(text []byte) *yaml.Node {
	root, err := Tree(text, len(text))
	if err != nil || root.IsZero() || root.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	return root.Content[0]
}

// startOfOurs matches the first line of one of our files in YAML, and what precedes it.
var startOfOurs = regexp.MustCompile(
	`^([^\pL{"'-]*)["']?(?:clouds|apiVersion|kind)["']?\s*:(?:\s|$)`)

// conflict is a format whose marks are beside each of two versions.
const conflict = "a conflict of git"

// aroundText matches lines around a text: the word that ends an input of a shell, the end of an
// introduction, and the beginning of a block of YAML.
var aroundText = regexp.MustCompile(`^[A-Z_]+$|\s\S*:$|^[|>][+-]?$`)

// wrapped recognizes one of our files in YAML with other text around it, or before each line.
func wrapped(text []byte) Other {
	rows := strings.SplitAfter(string(text), "\n")
	first := slices.IndexFunc(rows, startOfOurs.MatchString)
	if len(text) > maxOurs || first < 0 {
		return Other{}
	}
	mark := startOfOurs.FindStringSubmatch(rows[first])[1]
	body, sign := unmarked(rows[first:], mark), strings.TrimSpace(mark)
	if invalid, _ := firstInvalidLine([]byte(body)); invalid > 0 {
		body = strings.Join(strings.SplitAfter(body, "\n")[:invalid-1], "")
	}
	body = strings.TrimRight(body, "\r\n")
	end, outer := first+1+strings.Count(body, "\n"), 0
	for i, line := range rows {
		content := strings.TrimSpace(line)
		switch {
		case first <= i && i < end, content == "", strings.Contains("#-.%", content[:1]):
		case yamlKey.MatchString(content), IsTemplate(content), !aroundText.MatchString(content) &&
			!setting.MatchString(content) && in("line", lines, content).What == "":
			return Other{} // a mistake in this line
		default:
			outer = cmp.Or(outer, i+1)
		}
	}
	found := byTree([]byte(body))
	switch {
	case !isOurs(found.What):
		return Other{}
	case sign != "":
		if strings.ContainsAny(sign, "0123456789") {
			sign = "a number"
		}
		found.What += " with " + sign + " at the start of each line"
		return Other{found.What, first + 1, "remove it from each line"}
	case outer == 0:
		return Other{}
	}
	around := in("line", lines, strings.TrimSpace(rows[outer-1]))
	if around.What == conflict {
		return Other{}
	}
	return Other{
		found.What + " with " + cmp.Or(around.What, "other text") + " around it", outer,
		fmt.Sprintf("write only lines %d to %d", first+1, end),
	}
}

// unmarked returns the first lines that begin with a mark, without the mark.
func unmarked(lines []string, mark string) string {
	var body strings.Builder
	pattern := regexp.MustCompile(` *\d+`).ReplaceAllString(regexp.QuoteMeta(mark), ` *\d+`)
	begin := regexp.MustCompile("^" + pattern)
	for _, line := range lines {
		found := begin.FindStringIndex(line)
		if found == nil && strings.TrimSpace(line) != strings.TrimSpace(mark) {
			break
		}
		if found != nil {
			line = line[found[1]:]
		}
		body.WriteString(line)
	}
	return body.String()
}

// byTree recognizes YAML and JSON.
func byTree(text []byte) Other {
	root := mappingOf(text)
	if root == nil {
		return Other{}
	}
	return RecognizeTree(root)
}

// RecognizeTree recognizes a mapping by the keys at its top.
func RecognizeTree(root *yaml.Node) Other {
	top, kind := root.Content, &yaml.Node{}
	content := " "
	for i := 0; i+1 < len(top); i += 2 {
		content += top[i].Value + "=" + top[i+1].Value + " "
		if top[i].Value == "kind" {
			kind = top[i+1]
		}
	}
	found := in("top", tops, content)
	found.Line = root.Line
	if strings.Contains(found.What, kindMark) {
		found.Line = kind.Line
	}
	found.What = strings.Replace(found.What, kindMark, kind.Value, 1)
	return found
}

// kindMark stands for the kind of a manifest in formats.txt.
const kindMark = "$kind"
