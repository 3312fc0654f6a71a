package host

import (
	"io"
	"math"
	"strings"
	"unicode"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// maxEntry is the maximum size of a log entry in bytes: an error may quote a response of a guest
// cluster. Container runtimes split longer lines.
const maxEntry = 16 << 10

// LogTo writes the entries of klog to out, in klog's format, without credentials of proxies and
// control characters. klog decides which verbosity is written.
func LogTo(out io.Writer) {
	safe := safeLog{out}
	config := textlogger.NewConfig(textlogger.Output(safe), textlogger.Verbosity(math.MaxInt32))
	write := klog.WriteKlogBuffer(func(entry []byte) { _, _ = safe.Write(entry) })
	klog.SetLoggerWithOptions(textlogger.NewLogger(config), write)
}

// safeLog makes log entries safe to read. Each call of Write is one entry.
type safeLog struct {
	out io.Writer
}

func (l safeLog) Write(entry []byte) (int, error) {
	text := strings.TrimSuffix(string(entry[:min(len(entry), maxEntry+1)]), "\n")
	_, err := io.WriteString(l.out, indented(redact(truncate(text, maxEntry)))+"\n")
	return len(entry), err
}

// indented replaces control characters and indents all lines except the first, so that no line
// looks like another entry.
func indented(text string) string {
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
		return '?'
	}
	return r
}
