package main

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
)

// terminal returns a picture of a terminal with a frame of the view. The golden frames contain no
// colours: those of a finding follow from its mark, as the view chooses them.
func terminal(frame string) []byte {
	const columns, width, height, size, margin = 80, 8.4, 18, 14, 12
	frame = regexp.MustCompile(`\n{3,}`).ReplaceAllString(frame, "\n\n") // less empty space
	lines := strings.Split(strings.TrimRight(frame, "\n"), "\n")
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d">`+"\n",
		columns*width+2*margin, len(lines)*height+2*margin)
	svg.WriteString(`<rect width="100%" height="100%" rx="6" fill="#1e1e1e"/>` + "\n")
	fmt.Fprintf(&svg, `<g font-family="monospace" font-size="%d" fill="#d4d4d4">`,
		size)
	for i, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		// The width of the text is that of a terminal, whatever font a browser has.
		fmt.Fprintf(&svg, "\n"+`<text x="%d" y="%d" textLength="%.1f"%s>`, margin,
			margin+size+i*height, width*float64(len([]rune(line))), style(i, lines))
		// Browsers join spaces, but not those that do not break.
		_ = xml.EscapeText(&svg, []byte(strings.ReplaceAll(line, " ", "\u00a0")))
		svg.WriteString("</text>")
	}
	svg.WriteString("\n</g>\n</svg>\n")
	return svg.Bytes()
}

// style returns the attributes of a line. The second line has the colour of the worst finding,
// which is the first one.
func style(i int, lines []string) string {
	const bold = ` font-weight="bold"`
	colour := func(line string) string {
		for mark, colour := range map[string]string{
			" x ": "#f14c4c", " ~ ": "#e5e510", " ! ": "#29b8db",
		} {
			if strings.HasPrefix(line, mark) {
				return bold + ` fill="` + colour + `"`
			}
		}
		return ""
	}
	switch {
	case i == 0:
		return bold
	case i > 1 || len(lines) < 3:
		return colour(lines[i])
	default:
		return cmp.Or(colour(lines[2]), bold+` fill="#23d18b"`)
	}
}
