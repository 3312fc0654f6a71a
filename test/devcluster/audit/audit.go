// Package audit reads the audit logs of API servers for tests that count requests.
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Read returns the events since a time, from a log and the full files that the API server has
// renamed. It decodes only the lines that accept returns true for, because most lines are those of
// other clients.
func Read(log string, since time.Time, accept func(line []byte) bool) ([]auditv1.Event, error) {
	files, err := filepath.Glob(strings.TrimSuffix(log, ".log") + "*.log")
	if err != nil {
		return nil, fmt.Errorf("finding audit logs: %w", err)
	}
	var all []auditv1.Event
	for _, file := range files {
		found, err := ReadFile(file, 0, accept)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if !found[i].RequestReceivedTimestamp.Time.Before(since) {
				all = append(all, found[i])
			}
		}
	}
	return all, nil
}

// ReadFile returns the events in the lines of a file after an offset.
func ReadFile(name string, offset int64, accept func(line []byte) bool,
) (all []auditv1.Event, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	for reader := bufio.NewReader(file); ; {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // the API server has not completed the rest
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		// If an API server ends while it writes an event, the next one appends to the incomplete line.
		// If the offset is within an event, the line does not contain the start of one.
		start := bytes.LastIndex(line, []byte(`{"kind":"Event",`))
		if start < 0 || !accept(line) {
			continue
		}
		var event auditv1.Event
		if err := json.Unmarshal(line[start:], &event); err != nil {
			return nil, fmt.Errorf("decoding a line of %s: %w", name, err)
		}
		all = append(all, event)
	}
}
