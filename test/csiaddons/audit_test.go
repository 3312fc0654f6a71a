//go:build integration

package csiaddons

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// request is a kind of request in the audit log. The resource contains the subresource.
type request struct{ verb, resource string }

// requests counts the requests of the controller in the audit log since the test began.
func (w *world) requests() map[request]int {
	w.Helper()
	// The API server starts a new file when one is full.
	files, err := filepath.Glob(strings.TrimSuffix(w.dir.AuditLog(), ".log") + "*.log")
	w.must(err)
	counts := map[request]int{}
	for _, file := range files {
		w.countIn(file, counts)
	}
	return counts
}

func (w *world) countIn(file string, counts map[request]int) {
	w.Helper()
	log, err := os.Open(file)
	w.must(err)
	defer func() { w.must(log.Close()) }()
	const longest = 16 << 20
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, longest)
	for scanner.Scan() {
		var entry struct {
			Verb                   string
			User, ImpersonatedUser struct{ Username string }
			ObjectRef              struct{ Resource, Subresource string }

			RequestReceivedTimestamp time.Time
		}
		w.must(json.Unmarshal(scanner.Bytes(), &entry))
		if entry.User.Username != managerUser && entry.ImpersonatedUser.Username != managerUser ||
			entry.RequestReceivedTimestamp.Before(w.began) {
			continue
		}
		one := request{verb: entry.Verb, resource: entry.ObjectRef.Resource}
		if sub := entry.ObjectRef.Subresource; sub != "" {
			one.resource += "/" + sub
		}
		counts[one]++
	}
	w.must(scanner.Err())
}
