// Package architecture checks the rules about packages that linters cannot check: levels, the
// packages that a program links, names of packages, and fields that only some packages may read.
// Its own test applies the rules to this repository.
package architecture
