package kubectl

import (
	"bytes"
	"fmt"
	"regexp"
)

// repetition is how often `status` reads.
type repetition struct{ waits, watches bool }

// printChange prints a report if more than its ages differs from the one that was shown last. It
// returns what was shown, without ages.
func (s *session) printChange(report *Status, shown string) (string, error) {
	var text bytes.Buffer
	there := *s
	there.Out = &text
	if err := there.print("Status", report, report.write); err != nil {
		return shown, err
	}
	now := regexp.MustCompile(`(\d+[dhms])+|\s+`).ReplaceAllString(text.String(), " ")
	if now == shown {
		return shown, nil
	}
	if shown != "" && s.output == yamlOutput {
		fmt.Fprintln(s.Out, "---")
	} else if shown != "" {
		fmt.Fprintln(s.Out)
	}
	_, err := text.WriteTo(s.Out)
	return now, err
}
