package logins_test

import (
	"strings"
	"testing"
)

// expectNone fails if a row wants something else than an operator or a driver does.
func expectNone(t *testing.T, differences map[string]string) {
	t.Helper()
	for who, outcome := range differences {
		t.Errorf("%s: %s", who, outcome)
	}
}

func TestOperatorsAcceptWhatTheTableSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
			expectNone(t, got)
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
