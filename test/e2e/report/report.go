// Package report reads the reports of test suites that ginkgo runs.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Test is the kind of the entries that are tests. Other entries are steps before or after tests.
const Test = "It"

// Entry is a test or a step of a suite.
type Entry struct {
	// Kind is the type of ginkgo's node, such as Test.
	Kind string
	// Name contains the texts of the containers and of the node.
	Name string
	// State is the result: "passed", "skipped", "pending", "failed", or another kind of failure.
	State string
	// Message says why the entry failed or was skipped.
	Message string
}

// Read returns the entries of all suites in a JSON report.
func Read(file string) ([]Entry, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a report of tests: %w", err)
	}
	var suites []struct {
		SpecReports []struct {
			LeafNodeType, LeafNodeText, State string
			ContainerHierarchyTexts           []string
			Failure                           struct{ Message string }
		}
	}
	if err := json.Unmarshal(content, &suites); err != nil {
		return nil, fmt.Errorf("decoding the report of tests %s: %w", file, err)
	}
	var entries []Entry
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
			entries = append(entries, Entry{s.LeafNodeType, name, s.State, s.Failure.Message})
		}
	}
	return entries, nil
}
