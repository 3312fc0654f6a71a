package host

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/operator/events"
)

func TestRedactRemovesCredentials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "",
		"http://proxy:3128":         "http://proxy:3128",
		"http://u:p@proxy:3128/":    "http://REDACTED@proxy:3128/",
		"https://token@proxy":       "https://REDACTED@proxy",
		"http://u:p@ss@proxy":       "http://REDACTED@proxy",
		`"http://u:'p\u0026w'@p"`:   `"http://REDACTED@p"`,
		"http://a/b http://u:p@c":   "http://a/b http://REDACTED@c",
		`["http://a","x@b"]`:        `["http://a","x@b"]`,
		"https://registry/x@sha256": "https://registry/x@sha256",
		"-  \"http://u:p@a\"\n+  \"http://u:q@a\"\n": "-  \"http://REDACTED@a\"\n" +
			"+  \"http://REDACTED@a\"\n",
	} {
		assert.Check(t, is.Equal(redact(text), want), "%q", text)
	}
}

func TestEventsAreSafe(t *testing.T) {
	t.Parallel()
	memory := events.NewInMemoryRecorder("test", clock.RealClock{})
	r := recorder{memory}
	const secret = "http://u:secret@proxy"
	long := strings.Repeat("é", 1<<20)
	text := secret + " a\x1b[2Jb\n\tc\u009b " + long
	for _, way := range []events.Recorder{
		r, r.ForComponent("x"), r.WithComponentSuffix("y"), r.WithContext(t.Context()),
	} {
		way.Event("A", text)
		way.Eventf("B", "%s", text)
		way.Warning("C", text)
		way.Warningf("D", "%v", errors.New(text))
	}
	assert.Check(t, is.Len(memory.Events(), 16))
	for _, event := range memory.Events() {
		got := event.Message
		assert.Check(t, strings.HasPrefix(got, "http://REDACTED@proxy a?[2Jb\n\tc? é"), "%.50q", got)
		assert.Check(t, strings.HasSuffix(got, "é... (truncated)") && utf8.ValidString(got))
		assert.Check(t, len(got) <= 4200, "%s has %d bytes", event.Reason, len(got))
	}
	r.Eventf("E", "proxy changed to %q", map[string]string{"HTTP_PROXY": secret})
	assert.Check(t, is.Equal(memory.Events()[16].Message,
		`proxy changed to map["HTTP_PROXY":"http://REDACTED@proxy"]`))
}

func TestTruncatedTextContainsNoPassword(t *testing.T) {
	t.Parallel()
	text := "see http://u:secret@proxy/, the proxy"
	for limit := range len(text) + 1 {
		got := redact(truncate(text, limit))
		assert.Check(t, !strings.Contains(got, "u:") && !strings.Contains(got, "sec"), got)
	}
}
