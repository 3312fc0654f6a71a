package architecture

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Check returns the violations of the rules, one per line.
func (r Rules) Check(t Tree) []string {
	var found []string
	for _, p := range t.Packages {
		found = append(found, r.names(p)...)
		found = append(found, r.levels(t, p)...)
		found = append(found, r.links(t, p)...)
	}
	slices.Sort(found)
	return found
}

// names checks folders; the linter compares the names of packages with their folders.
func (r Rules) names(p Package) []string {
	if !slices.Contains(r.Meaningless, path.Base(p.Folder)) {
		return nil
	}
	return []string{p.Folder + ": the name does not say what the package contains"}
}

func (r Rules) levels(t Tree, p Package) []string {
	from := p.Folder
	own, number, ok := r.level(from)
	if !ok {
		return []string{from + ": has no level"}
	}
	var found []string
	for _, imported := range p.allImports() {
		to, inside := t.folder(imported)
		if !inside {
			continue
		}
		other, otherNumber, _ := r.level(to)
		switch {
		case other == own:
		case number == r.Apart && otherNumber == r.Apart:
			found = append(found, fmt.Sprintf("%s: must not import %s, not even in tests", from, to))
		case otherNumber >= number && slices.Contains(p.Imports, imported):
			found = append(found, fmt.Sprintf("%s: on level %d, imports %s, on level %d", from, number,
				to, otherNumber))
		}
	}
	return found
}

// level returns the part of a folder that a level matches, and the number of the level.
func (r Rules) level(folder string) (string, int, bool) {
	for _, l := range r.Levels {
		if name, ok := match(l.Folder, folder); ok {
			return name, l.Number, true
		}
	}
	return "", 0, false
}

func (r Rules) links(t Tree, p Package) []string {
	from := p.Folder
	var found []string
	for _, program := range r.Programs {
		if _, ok := match(program.Folder, from); !ok {
			continue
		}
		for _, not := range program.Not {
			if folder, ok := strings.CutPrefix(not, "./"); ok {
				not = t.Module + "/" + folder
			}
			for _, dep := range p.Deps {
				if dep == not || strings.HasPrefix(dep, not+"/") {
					found = append(found, fmt.Sprintf("%s: must not link %s", from, dep))
				}
			}
		}
	}
	return found
}
