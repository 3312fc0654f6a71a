package logins_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// differences lists what operators and drivers do, by row, if a row wants something else.
type differences struct {
	file     string
	expected map[string]map[string]string

	mu  sync.Mutex
	got map[string]map[string]string
}

func readDifferences(t *testing.T, file string) *differences {
	t.Helper()
	d := &differences{file: file, got: map[string]map[string]string{}}
	decode(t, file, &d.expected)
	t.Cleanup(func() { d.write(t) })
	return d
}

// check compares the differences of a row with those that are known.
func (d *differences) check(t *testing.T, r row, got map[string]string) {
	t.Helper()
	d.mu.Lock()
	if len(got) > 0 {
		d.got[r.Name] = got
	}
	d.mu.Unlock()
	expected := d.expected[r.Name]
	if len(expected) == 0 {
		expected = map[string]string{}
	}
	if diff := cmp.Diff(expected, got); diff != "" && !*update {
		t.Errorf("other differences than in %s (-listed +found):\n%s", d.file, diff)
	}
}

func (d *differences) write(t *testing.T) {
	t.Helper()
	if !*update {
		return
	}
	text, err := yaml.Marshal(d.got)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOperatorsAcceptWhatTheTableSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	known := readDifferences(t, "testdata/today/operators.yaml")
	for _, r := range readRows(t, w) {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			c := w.cloud(t, r)
			content := r.content(w, c)
			got := map[string]string{}
			for driver := range drivenServices() {
				outcome := judge(t, r, content, c, driver)
				if refusal := r.refusal(driver); refusal == "" && outcome != works ||
					refusal != "" && !strings.Contains(outcome, refusal) {
					got[driver] = outcome
				}
			}
			known.check(t, r, got)
		})
	}
}

func drivenServices() map[string][]string {
	return map[string][]string{"cinder": {"compute", "volumes"}, "manila": {"shares"}}
}

// judge returns what the operator of a driver does with a content.
func judge(t *testing.T, r row, content content, c *cloud, driver string) string {
	t.Helper()
	if _, err := generate(content); err != nil {
		return fails + c.anonymous(err.Error())
	}
	endpoints, err := login(t, content, c, driver)
	logins, _ := c.take()
	return r.outcome(c, err, logins, endpoints, drivenServices()[driver]...)
}
