package architecture

import (
	"fmt"
	"strings"
)

// Imports returns, one a line, what breaks the rules about imports.
func (r Rules) Imports(t Tree) []string {
	var found []string
	for _, p := range t.Packages {
		found = append(found, r.levels(t, p)...)
		found = append(found, r.strangers(t, p)...)
		found = append(found, r.owners(t, p)...)
		found = append(found, r.links(t, p)...)
	}
	return found
}

// level returns the room of a folder and its number.
func (r Rules) level(folder string) (string, int, bool) {
	for _, l := range r.Levels {
		if name, ok := room(l.Folder, folder); ok {
			return name, l.Number, true
		}
	}
	return "", 0, false
}

// levels leaves tests out: they may use anything but strangers.
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
			found = append(found, fmt.Sprintf("%s: on level %d, imports %s, on level %d", from, number, to, otherNumber))
		}
	}
	return found
}

func (r Rules) strangers(t Tree, p Package) []string {
	from := t.folderOf(p)
	var found []string
	for _, pair := range r.Strangers {
		own, ok := room(pair.From, from)
		if !ok {
			continue
		}
		for _, imported := range p.allImports() {
			to, _ := t.folder(imported)
			if other, ok := room(pair.To, to); ok && other != own {
				found = append(found, fmt.Sprintf("%s: must not know %s, not even in tests", from, to))
			}
		}
	}
	return found
}

func (r Rules) owners(t Tree, p Package) []string {
	from := t.folderOf(p)
	var found []string
	for _, owner := range r.Owners {
		if isIn(from, owner.Folder) {
			continue
		}
		for _, imported := range p.allImports() {
			if isBelow(imported, owner.Library) {
				found = append(found, fmt.Sprintf("%s: imports %s, which only %s may", from, imported, owner.Folder))
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

// isBelow is true for a package and what is below it, later major versions included.
func isBelow(importPath, root string) bool {
	return importPath == root || strings.HasPrefix(importPath, root+"/")
}
