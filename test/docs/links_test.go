// Package docs_test checks the Markdown files of the repository, such as their links, and the tests
// that docs/testing.md names.
package docs_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestLinksOfAllPagesResolve(t *testing.T) {
	t.Parallel()
	if broken := brokenLinks(t, os.DirFS("../..")); len(broken) > 0 {
		t.Errorf("no such file or heading:\n%s", strings.Join(broken, "\n"))
	}
}

// brokenLinks returns the relative links of all pages that lead nowhere.
func brokenLinks(t *testing.T, root fs.FS) []string {
	t.Helper()
	var broken []string
	for _, page := range files(t, root, ".md") {
		links, _ := parse(t, root, page)
		for _, link := range links {
			if !resolves(t, root, page, link) {
				broken = append(broken, page+": "+link)
			}
		}
	}
	return broken
}

// files returns the files of the repository whose names end with suffix.
func files(t *testing.T, root fs.FS, suffix string) []string {
	t.Helper()
	skipped := []string{".git", ".devcluster", "bin", "testdata"}
	var found []string
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case strings.HasSuffix(name, suffix):
			found = append(found, name)
		}
		return nil
	})
	assert.Assert(t, err == nil && len(found) != 0,
		"found %d files *%s, error %v", len(found), suffix, err)
	return found
}

func resolves(t *testing.T, root fs.FS, page, link string) bool {
	t.Helper()
	target, err := url.Parse(link)
	if err != nil || target.Scheme != "" {
		return err == nil
	}
	if target.Path != "" {
		page = path.Join(path.Dir(page), target.Path)
	}
	if _, err := fs.Stat(root, page); err != nil || target.Fragment == "" {
		return err == nil
	}
	_, anchors := parse(t, root, page)
	return anchors[target.Fragment]
}

// parse returns the links of a page, and the anchors that GitHub gives to its headings.
func parse(t *testing.T, root fs.FS, page string) (links []string, anchors map[string]bool) {
	t.Helper()
	content, err := fs.ReadFile(root, page)
	assert.NilError(t, err)
	blocks := regexp.MustCompile("(?ms)^ *```.*?^ *```|^ *~~~.*?^ *~~~|\n\n(?:(?: {4}|\t)[^\n]*\n+)+")
	heading, target := regexp.MustCompile(`(?m)^#+ +(.*)`), regexp.MustCompile(`\]\([^)]*\)`)
	punctuation := regexp.MustCompile(`[^\pL\pN _-]`)
	text := blocks.ReplaceAllString(string(content), "\n\n")
	anchors = map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		title := strings.ToLower(target.ReplaceAllString(match[1], ""))
		title = punctuation.ReplaceAllString(title, "")
		anchor := strings.ReplaceAll(title, " ", "-")
		for base, n := anchor, 1; anchors[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", base, n)
		}
		anchors[anchor] = true
	}
	text = regexp.MustCompile("`[^`\n]*(?:\n[^`\n]+)*`").ReplaceAllString(text, "")
	link := regexp.MustCompile(`(?m)(?:\]\(|^ {0,3}\[[^]^]+\]: *)<?([^)>\s]+)`)
	for _, match := range link.FindAllStringSubmatch(text, -1) {
		links = append(links, match[1])
	}
	return links, anchors
}
