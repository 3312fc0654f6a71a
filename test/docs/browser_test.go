//go:build browser

package docs_test

import (
	"fmt"
	"html"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// The page with all pictures stays in bin/pictures, where `make test-pictures` has put Mermaid.
func TestBrowserShowsPicturesWithoutMistakes(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	script, err := os.ReadFile("testdata/mistakes.js")
	assert.NilError(t, err)
	var page strings.Builder
	page.WriteString("<!DOCTYPE html><meta charset=utf-8><body style='width: 838px'>\n")
	diagrams := diagrams(t, root)
	for _, d := range diagrams {
		fmt.Fprintf(&page, "<figure title=%s><pre class=mermaid>%s</pre></figure>\n", d.page,
			html.EscapeString(d.text))
	}
	for _, file := range files(t, root, ".svg") {
		content, err := fs.ReadFile(root, file)
		assert.NilError(t, err)
		_, svg, _ := strings.Cut(string(content), "<svg")
		fmt.Fprintf(&page, "<figure title=%s><svg%s</figure>\n", file, svg)
	}
	fmt.Fprintf(&page, "<pre id=mistakes></pre>\n"+
		"<script src=node_modules/mermaid/dist/mermaid.min.js></script>\n<script>%s</script>\n", script)
	file, err := filepath.Abs("../../bin/pictures/index.html")
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(file, []byte(page.String()), 0o600))

	cmd := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox",
		"--disable-gpu", "--virtual-time-budget=60000", "--dump-dom", "file://"+file)
	out, err := cmd.Output()
	assert.NilError(t, err)
	said := regexp.MustCompile(`(?s)<pre id="mistakes">(.*?)</pre>`).FindSubmatch(out)
	assert.Assert(t, said != nil, "%s", out)
	assert.Equal(t, html.UnescapeString(string(said[1])), "none", "look at %s", file)
}
