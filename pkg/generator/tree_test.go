package generator_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"gotest.tools/v3/assert"
)

// validTree reads testdata/valid.txt: a small assets folder with two drivers and without mistakes.
// Each file follows a line with its name between dashes.
func validTree(t *testing.T) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile("testdata/valid.txt")
	assert.NilError(t, err)
	tree := fstest.MapFS{}
	for _, section := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		name, content, _ := strings.Cut(section, " --\n")
		tree[name] = &fstest.MapFile{Data: []byte(content + "\n")}
	}
	return tree
}

// edit changes one file of a tree: it replaces old, which occurs once, or the whole file if old is
// empty. If new is empty too, it removes the file.
type edit struct {
	file, old, new string
}

func (e edit) apply(t *testing.T, tree fstest.MapFS) {
	t.Helper()
	switch {
	case e.old == "" && e.new == "":
		delete(tree, e.file)
	case e.old == "":
		tree[e.file] = &fstest.MapFile{Data: []byte(e.new)}
	default:
		before := string(tree[e.file].Data)
		if strings.Count(before, e.old) != 1 {
			t.Fatalf("%q occurs %d times in %s", e.old, strings.Count(before, e.old), e.file)
		}
		tree[e.file] = &fstest.MapFile{Data: []byte(strings.Replace(before, e.old, e.new, 1))}
	}
}
