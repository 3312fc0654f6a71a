package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

const (
	tailLines = 15
	tailBytes = 16 << 10
)

// WithLog adds the end of a log file to an error.
func WithLog(err error, log string) error {
	tail := Tail(log)
	if tail == "" {
		return fmt.Errorf("%w (its log %s is empty)", err, log)
	}
	return fmt.Errorf("%w\n--- the end of %s:\n%s", err, log, tail)
}

// Tail returns the last lines of a file. It returns nothing if the file cannot be read, because it
// only adds to another error.
func Tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}
