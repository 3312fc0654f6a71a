package host

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/openshift/library-go/pkg/operator/events"
)

// userinfo matches the user and password of a URL, including the @.
var userinfo = regexp.MustCompile(`://[^\s"/]*@`)

// unfinished matches a URL at the end of a text, which may lack its @.
var unfinished = regexp.MustCompile(`://[^\s"/]*$`)

// redact removes the credentials from all URLs in a text. The proxy URLs of a cluster may contain
// credentials; library-go quotes observed configuration in events, and workloads in the log.
func redact(text string) string {
	return userinfo.ReplaceAllLiteralString(text, "://REDACTED@")
}

// maxEvent is the maximum size of an event message in bytes: it may quote an object of a guest
// cluster.
const maxEvent = 4096

// truncate shortens a text to limit bytes and adds a note. It removes a URL at the end, because
// redact would not find a password without the @ after it.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(unfinished.ReplaceAllLiteralString(text[:limit], ""), "") +
		"... (truncated)"
}

// cleaned returns the message of an event without credentials and control characters. Lines remain:
// library-go writes differences.
func cleaned(message string) string {
	return strings.Map(printable, redact(truncate(message, maxEvent)))
}

// recorder is shared by all controllers, because each recorder of library-go has queues of a
// thousand events. It removes credentials from messages.
type recorder struct {
	events.Recorder
}

func (r recorder) ForComponent(string) events.Recorder { return r }

func (r recorder) WithComponentSuffix(string) events.Recorder { return r }

func (r recorder) WithContext(ctx context.Context) events.Recorder {
	return recorder{r.Recorder.WithContext(ctx)}
}

func (r recorder) Event(reason, message string) {
	r.Recorder.Event(reason, cleaned(message))
}

func (r recorder) Eventf(reason, format string, args ...any) {
	r.Event(reason, fmt.Sprintf(format, args...))
}

func (r recorder) Warning(reason, message string) {
	r.Recorder.Warning(reason, cleaned(message))
}

func (r recorder) Warningf(reason, format string, args ...any) {
	r.Warning(reason, fmt.Sprintf(format, args...))
}
