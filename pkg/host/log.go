package host

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// maxEntry bounds an entry of the log: an error may quote an answer of a hosted cluster. Container runtimes split longer lines.
const maxEntry = 16 << 10

// LogTo sends all that klog writes to out, in klog's own format, without credentials of proxies and control characters. klog alone
// decides which verbosity is written.
func LogTo(out io.Writer) {
	safe := safeLog{out}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(safe), textlogger.Verbosity(math.MaxInt32)))
	klog.SetLoggerWithOptions(logger, klog.WriteKlogBuffer(func(entry []byte) {
		_, _ = safe.Write(entry) // nobody can be told that the log cannot be written
	}))
}

// safeLog makes each entry of the log safe to read. An entry is one call of Write.
type safeLog struct {
	out io.Writer
}

func (l safeLog) Write(entry []byte) (int, error) {
	text := strings.TrimSuffix(string(entry), "\n")
	if _, err := io.WriteString(l.out, oneEntry(redact(cut(text, maxEntry)))+"\n"); err != nil {
		return 0, fmt.Errorf("writing the log: %w", err)
	}
	return len(entry), nil
}

// oneEntry replaces control characters, and indents all lines but the first: none looks like another entry. klog's own lines of
// values have an indent.
func oneEntry(text string) string {
	lines := strings.Split(strings.Map(printable, text), "\n")
	for i, line := range lines {
		if i > 0 && line != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			lines[i] = "\t" + line
		}
	}
	return strings.Join(lines, "\n")
}

func printable(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return unicode.ReplacementChar
	}
	return r
}
