// Package budget checks what the parsers of foreign text cost: no text of the allowed size may take
// more than Memory or Time. Fuzz targets of the packages with parsers call it. The go command runs
// them one after the other, after all tests, so that nothing else allocates meanwhile.
package budget

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a text may cost: allocated bytes, most of which are free again later, and time of a CPU,
// which does not depend on the load of the machine.
const (
	Memory = 64 << 20
	Time   = time.Second
)

// Check fails if a parser costs too much.
func Check(t *testing.T, parse func()) {
	t.Helper()
	CheckMemory(t, Memory, parse)
}

// CheckMemory is Check with another bound of the memory.
func CheckMemory(t *testing.T, memory uint64, parse func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	bytes, elapsed := allocated(), used()
	parse()
	if raceDetector {
		return // the detector allocates memory, and takes time
	}
	bytes, elapsed = allocated()-bytes, used()-elapsed
	t.Logf("%d KiB of %d, %v of %v", bytes>>10, memory>>10, elapsed, Time)
	if bytes > memory || elapsed > Time {
		t.Error("the parser costs too much")
	}
}

// allocated returns how many bytes this process has allocated since its start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// used returns the time of a CPU that this thread has used.
func used() time.Duration {
	const thisThread = 1 // RUSAGE_THREAD
	var usage syscall.Rusage
	if err := syscall.Getrusage(thisThread, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Repeated returns a text of at most size bytes: a start, and as often as possible a part. In the
// part # becomes a number that counts.
func Repeated(start, part string, size int) string {
	text := strings.Builder{}
	text.WriteString(start)
	for i := 0; ; i++ {
		next := strings.ReplaceAll(part, "#", fmt.Sprint(i))
		if text.Len()+len(next) > size {
			break
		}
		text.WriteString(next)
	}
	return text.String()
}

// YAML returns texts of at most size bytes that cost much as YAML or JSON. Each begins with a start
// that ends within a mapping in block style, whose keys are indented.
func YAML(start, indent string, size int) (texts []string) {
	in := "\n" + indent
	for _, part := range []string{
		in + "x:", in + "x#:", in + "? x", in + "a: {x: 1, x: 2}", in + "x#: '1'", in + "x#: 1",
		in + "? [a]\n" + indent + ": b", in + "# comment", in + "<<: {a: b}", in + "x#: &a# 'x'",
		"\n---\na: b", "\n...\n", "\n--- ", in + "x#: {{ x }}", in + "x#: !!binary x",
		in + "x#: |\n" + indent + "  t",
	} {
		texts = append(texts, Repeated(start, part, size))
	}
	for opening, part := range map[string]string{
		"x: [": "[],", "y: [": "[", "z: {": "a: {", "t: {": "x: 1, ", "u: {": "x#: 1, ", "v: ": "- ",
		"w: ": "? ", "q: \"": `\u0041`, "r: '": "''", "s: ": "a", "a: ": "a: ", "b: {": "? ",
		"c: [": "*a,", "d: [": "&a ", "e: [": "!a ", "f: [": "{},", "g: [": "a: b,", "h: >": "\n",
		"i: [": "\"\",", "j: &a {b: c, <<: [": "*a,", "k: {<<: [": "{x#: y},", "l: [": "{a},",
	} {
		texts = append(texts, Repeated(start+in+opening, part, size))
		closing := map[byte]string{'[': "]", '{': "}", '"': `"`, '\'': "'"}[opening[len(opening)-1]]
		texts = append(texts, Repeated(start+in+opening, part, size-1)+closing)
	}
	for depth := 10; depth <= size/3; depth *= 10 {
		texts = append(texts,
			start+in+"x: "+strings.Repeat("[", depth)+strings.Repeat("]", depth),
			start+in+"x: "+strings.Repeat("{a: ", depth/2)+strings.Repeat("}", depth/2))
	}
	return append(texts, aliases(start, in, 9), aliases(start, in, 2))
}

// aliases returns a text in which each of many lists contains the one before several times.
func aliases(start, in string, times int) string {
	text := start + in + "x0: &x0 [x]"
	for i := range 30 {
		text += fmt.Sprintf("%sx%d: &x%d [%s]", in, i+1, i+1,
			strings.Join(strings.Fields(strings.Repeat(fmt.Sprintf("*x%d ", i), times)), ","))
	}
	return text
}
