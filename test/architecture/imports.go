package architecture

import (
	"fmt"
	"strings"
)

// Imports returns the violations of the rules about imports, one per line.
func (r Rules) Imports(t Tree) []string {
	var found []string
	for _, p := range t.Packages {
		found = append(found, r.levels(t, p)...)
		found = append(found, r.forbidden(t, p)...)
		found = append(found, r.links(t, p)...)
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

// levels ignores tests, which may import packages of any level.
func (r Rules) levels(t Tree, p Package) []string {
	from := t.folderOf(p)
	own, number, ok := r.level(from)
	if !ok {
		return []string{from + ": has no level"}
	}
	var found []string
	for _, imported := range p.Imports {
		to, inside := t.folder(imported)
		if !inside {
			continue
		}
		other, otherNumber, _ := r.level(to)
		if other != own && otherNumber >= number {
			found = append(found, fmt.Sprintf("%s: on level %d, imports %s, on level %d", from, number, to,
				otherNumber))
		}
	}
	return found
}

func (r Rules) forbidden(t Tree, p Package) []string {
	from := t.folderOf(p)
	var found []string
	for _, pair := range r.Forbidden {
		own, ok := match(pair.From, from)
		if !ok {
			continue
		}
		for _, imported := range p.allImports() {
			to, _ := t.folder(imported)
			if other, ok := match(pair.To, to); ok && other != own {
				found = append(found, fmt.Sprintf("%s: must not import %s, not even in tests", from, to))
			}
		}
	}
	return found
}

func (r Rules) links(t Tree, p Package) []string {
	from := t.folderOf(p)
	var found []string
	for _, program := range r.Programs {
		if !isIn(from, program.Folder) {
			continue
		}
		for _, not := range program.Not {
			if folder, ok := strings.CutPrefix(not, "./"); ok {
				not = t.Module + "/" + folder
			}
			for _, dep := range p.Deps {
				if isBelow(dep, not) {
					found = append(found, fmt.Sprintf("%s: must not link %s", from, dep))
				}
			}
		}
	}
	return found
}

// isBelow returns true for a package and the packages below it, including later major versions.
func isBelow(importPath, root string) bool {
	return importPath == root || strings.HasPrefix(importPath, root+"/")
}
