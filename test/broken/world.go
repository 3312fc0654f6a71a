package broken

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// World chooses what must not matter: names, sizes, ages, and what else is broken.
type World struct {
	// Now is the time in the cluster.
	Now time.Time
	// Words are the beginnings of names of objects. Without them names contain their roles.
	Words []string
	// Size is the size of a claim in GiB.
	Size int
	// Age multiplies all ages. Reversed lets a cause be newer than what follows it.
	Age      int
	Reversed bool
	// Distinct lets situations have no names in common. Nodes are names of nodes by role.
	Distinct bool
	Nodes    map[string]string
	// Aftermath adds what components report after a failure, Noise what is broken elsewhere.
	Aftermath, Noise bool
}

// NewWorld returns a quiet world.
func NewWorld(now time.Time) World { return World{Now: now, Size: 337, Age: 1} }

// ago returns the time some seconds ago.
func (b *builder) ago(seconds string) time.Time {
	n, err := strconv.Atoi(seconds)
	b.fail(err)
	return b.world.Now.Add(-time.Duration(n*b.world.Age) * time.Second).UTC()
}

// name returns the name of a role, always the same. Pods and claims of a StatefulSet contain it.
func (b *builder) name(role string) string {
	switch {
	case role == "pod" && b.ofSet():
		return b.name("statefulset") + "-0"
	case role == "claim" && b.ofSet():
		return b.name("template") + "-" + b.name("pod")
	case b.Names[role] != "":
	case b.world.Nodes[role] != "":
		b.Names[role] = b.world.Nodes[role]
	default:
		b.Names[role] = b.world.word(fmt.Sprintf("%s-z%d%s", role[:min(len(role), 6)],
			len(b.Names), b.suffix), len(b.Names))
	}
	return b.Names[role]
}

// word returns a word as long as a name, because where a text is cut depends on the lengths of its
// names. Without words it returns the name.
func (w World) word(name string, n int) string {
	for i := range w.Words {
		word := w.Words[(n+i)%len(w.Words)]
		if rest := len(name) - len(word); rest == 0 || rest > 1 {
			return word + strings.Repeat("-x", rest/2) + strings.Repeat("x", rest%2)
		}
	}
	return name
}

func (b *builder) ofSet() bool { return b.kind == "statefulset" || b.step == "exists" }

// id returns the UUID of a role. With words, it contains HTTP statuses.
func (b *builder) id(role string) string {
	key := role + ".id"
	if b.Names[key] == "" {
		start := map[bool]int{true: 0x2c7a0000, false: 0x40100000}[len(b.world.Words) == 0]
		b.Names[key] = fmt.Sprintf("%08x-0413-4429-8403-%08x%04x", start+len(b.Names), b.hash,
			len(b.Names))
	}
	return b.Names[key]
}

// gib returns a multiple of the size in GiB, and more.
func (b *builder) gib(times, more string) string {
	n, err := strconv.Atoi(times)
	b.fail(err)
	rest, err := strconv.Atoi(more)
	b.fail(err)
	size := strconv.Itoa(b.world.Size*n + rest)
	b.Names["size "+times+" "+more] = size
	return size
}
