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

func TestEventsContainNoCredentials(t *testing.T) {
	t.Parallel()
	memory := events.NewInMemoryRecorder("test", clock.RealClock{})
	r := recorder{memory}
	for _, way := range []events.Recorder{
		r, r.ForComponent("x"), r.WithComponentSuffix("y"),
		r.WithContext(t.Context()),
	} {
		way.Event("A", "http://u:secret@proxy")
		way.Eventf("B", "proxy changed to %q", map[string]string{"HTTP_PROXY": "http://u:secret@proxy"})
		way.Warning("C", "http://u:secret@proxy")
		way.Warningf("D", "%v", errors.New("http://u:secret@proxy"))
	}
	if n := len(memory.Events()); n != 16 {
		t.Errorf("%d events, want 16", n)
	}
	for _, event := range memory.Events() {
		if strings.Contains(event.Message, "secret") ||
			!strings.Contains(event.Message, "http://REDACTED@proxy") {
			t.Errorf("event %s says %q", event.Reason, event.Message)
		}
	}
}

func TestEventsAreShort(t *testing.T) {
	t.Parallel()
	memory := events.NewInMemoryRecorder("test", clock.RealClock{})
	r := recorder{memory}
	r.Event("A", strings.Repeat("é", 1<<20))
	r.Warningf("B", "x%s", strings.Repeat("é", 1<<20))
	for _, event := range memory.Events() {
		if len(event.Message) > 4200 || !utf8.ValidString(event.Message) ||
			!strings.HasSuffix(event.Message, "é... (truncated)") {
			t.Errorf("event %s has %d bytes, at the end %q", event.Reason, len(event.Message),
				event.Message[len(event.Message)-20:])
		}
	}
}

func TestEventsContainNoControlCharacters(t *testing.T) {
	t.Parallel()
	memory := events.NewInMemoryRecorder("test", clock.RealClock{})
	recorder{memory}.Warning("A", "a\x1b[2Jb\n\tc\u009b")
	assert.Check(t, is.Equal(memory.Events()[0].Message, "a?[2Jb\n\tc?"), "the event says")
}

func TestTruncatedTextContainsNoPassword(t *testing.T) {
	t.Parallel()
	text := "see http://u:secret@proxy/, the proxy"
	for limit := range len(text) + 1 {
		if got := redact(truncate(text, limit)); strings.Contains(got, "u:") ||
			strings.Contains(got, "sec") {
			t.Errorf("cut at %d: got %q", limit, got)
		}
	}
}
