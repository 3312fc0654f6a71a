package main

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

const source = `package p

const name = "a"

func f(a []int, ready bool, err error) (int, error) {
	log.Info("not", 1)
	if ready {
		reset(a)
	}
	for i := range a {
		if i >= 2 && err != nil {
			return 0, err
		}
		a[i]++
		continue
	}
	switch name {
	case "b":
		err = nil
	}
	return 3, nil
}
`

func TestMutantsOfASource(t *testing.T) {
	t.Parallel()
	mutants, err := find("p.go", source)
	assert.NilError(t, err)
	var got []string
	for _, m := range mutants {
		_, change, _ := strings.Cut(m.name, ": ")
		got = append(got, change)
	}
	want := []string{
		`"a" -> "mutant"`, "ready -> !(ready)", "reset(a) -> ",
		"i >= 2 && err != nil -> !(i >= 2 && err != nil)", "&& -> ||", ">= -> >", "2 -> 5",
		"!= -> ==", "err -> nil", "0 -> 1", "++ -> --",
		"continue -> break", `"b" -> "mutant"`, "err = nil -> ", "nil -> mutantError{}", "3 -> 7",
	}
	assert.Check(t, is.DeepEqual(want, got), "mutants")
	if got, want := mutants[2].name, "p.go:8:3: reset(a) -> "; got != want {
		t.Errorf("name %q, want %q", got, want)
	}
}
