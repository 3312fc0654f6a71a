package architecture_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// golangci-lint reports a nolint comment without effect only if the linter that it names is on.
func TestNolintCommentsNameLintersThatAreOn(t *testing.T) {
	t.Parallel()
	var config struct{ Linters struct{ Enable []string } }
	content, err := os.ReadFile("../../.golangci.yml")
	if err == nil {
		err = yaml.Unmarshal(content, &config)
	}
	comment := regexp.MustCompile(`//nolint:([a-z,]+)`)
	check := func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, found := range comment.FindAllStringSubmatch(string(content), -1) {
			for linter := range strings.SplitSeq(found[1], ",") {
				if !slices.Contains(config.Linters.Enable, linter) {
					t.Errorf("%s: nolint of %s, which .golangci.yml does not enable", path, linter)
				}
			}
		}
		return err
	}
	for _, top := range []string{"assets", "cmd", "hack", "legacy", "pkg", "test"} {
		if err == nil {
			err = filepath.WalkDir("../../"+top, check)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
