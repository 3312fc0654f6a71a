package docs_test

import (
	"cmp"
	"encoding/xml"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

// element is an element of an SVG file.
type element struct {
	Attributes []xml.Attr `xml:",any,attr"`
	Children   []element  `xml:",any"`
	Text       string     `xml:",chardata"`
}

// written is a text of a picture and its box, with an estimated width.
type written struct {
	left, right, top, bottom float64
	text                     string
}

func TestTextsOfPicturesAreLegible(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	for _, file := range files(t, root, ".svg") {
		content, err := fs.ReadFile(root, file)
		assert.NilError(t, err)
		var picture element
		assert.NilError(t, xml.Unmarshal(content, &picture))
		width := picture.number("width")
		texts, vertical := picture.texts(12)
		for i, text := range texts {
			assert.Check(t, !strings.HasPrefix(text.text, " ") && !strings.Contains(text.text, "  "),
				"%s: browsers join the spaces of %q", file, text.text)
			assert.Check(t, text.left >= 0 && text.right <= width, "%s: cut off: %+v", file, text)
			for _, other := range texts[:i] {
				assert.Check(t, text.right <= other.left || other.right <= text.left ||
					text.bottom <= other.top || other.bottom <= text.top,
					"%s: %+v and %+v overlap", file, text, other)
			}
		}
		isPlot := strings.Contains(string(content), "Plotinum")
		assert.Check(t, !isPlot || vertical, "%s: the vertical axis has no unit", file)
	}
}

// texts returns the horizontal texts of an element whose letters have a size, and whether it has
// vertical ones.
func (e element) texts(size float64) (all []written, vertical bool) {
	_, style, _ := strings.Cut(e.text("style"), "font-size:")
	own, _ := strconv.ParseFloat(strings.TrimSuffix(style, "px"), 64)
	size = cmp.Or(own, e.number("font-size"), size)
	for _, child := range e.Children {
		texts, turned := child.texts(size)
		all, vertical = append(all, texts...), vertical || turned
	}
	if e.text("transform") == "rotate(90)" {
		return nil, len(all) > 0
	}
	if len(e.Children) == 0 && strings.TrimSpace(e.Text) != "" {
		// Letters of sans-serif fonts are half as wide as high, on average.
		width := max(e.number("textLength"), size/2*float64(utf8.RuneCountInString(e.Text)))
		x, y := e.number("x"), e.number("y")
		all = append(all, written{x, x + width, y - 0.9*size, y + 0.25*size, e.Text})
	}
	return all, vertical
}

func (e element) text(attribute string) string {
	for _, a := range e.Attributes {
		if a.Name.Local == attribute {
			return a.Value
		}
	}
	return ""
}

// number returns an attribute without its unit.
func (e element) number(attribute string) float64 {
	value, _ := strconv.ParseFloat(strings.TrimSuffix(e.text(attribute), "pt"), 64)
	return value
}

// diagram is the text of a Mermaid diagram of a page.
type diagram struct{ page, text string }

func diagrams(t *testing.T, root fs.FS) (all []diagram) {
	t.Helper()
	block := regexp.MustCompile("(?ms)^```mermaid\n(.*?)^```")
	for _, page := range files(t, root, ".md") {
		text, err := fs.ReadFile(root, page)
		assert.NilError(t, err)
		for _, found := range block.FindAllSubmatch(text, -1) {
			all = append(all, diagram{page, string(found[1])})
		}
	}
	assert.Assert(t, len(all) > 0)
	return all
}

// A program that wraps prose would join the statements of a diagram: each is on a line of its own.
// In a browser, a label that contains the end of a line has an empty one.
func TestDiagramsHaveAStatementOnEachLine(t *testing.T) {
	t.Parallel()
	kind := regexp.MustCompile(`\A(flowchart (LR|TB|TD)|sequenceDiagram)\n`)
	begin, end := regexp.MustCompile(`(?m)^ *subgraph `), regexp.MustCompile(`(?m)^ *end$`)
	for _, d := range diagrams(t, os.DirFS("../..")) {
		assert.Check(t, kind.MatchString(d.text) && (!strings.HasPrefix(d.text, "flowchart") ||
			len(begin.FindAllString(d.text, -1)) == len(end.FindAllString(d.text, -1))),
			"%s: the diagram\n%s", d.page, d.text)
		for _, line := range strings.Split(d.text, "\n") {
			assert.Check(t, strings.Count(line, `"`)%2 == 0, "%s: a label ends on another line than %s",
				d.page, line)
		}
	}
}
