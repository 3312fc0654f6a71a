package host

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/openshift/library-go/pkg/operator/events"
)

// userinfo is what comes before the host in a URL, the @ included.
var userinfo = regexp.MustCompile(`://[^\s"/]*@`)

// unfinished is the start of a URL at the end of a text that may lack its @.
var unfinished = regexp.MustCompile(`://[^\s"/]*$`)

// redact removes the credentials from all URLs in a text. The proxies of a cluster may have some, and library-go quotes observed
// configuration in events, and changes to workloads in the log.
func redact(text string) string {
	return userinfo.ReplaceAllLiteralString(text, "://REDACTED@")
}

// maxEvent bounds the message of an event: an object of a hosted cluster may be quoted in it.
const maxEvent = 4096

// cut shortens a text to limit bytes, and says so at its end. A URL that it would cut before the end of its host goes too: without
// the @, redact would not find the password.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(unfinished.ReplaceAllLiteralString(text[:limit], ""), "") + "... (truncated)"
}

// recorder is one for all controllers: each that library-go would make of it for a controller holds queues of a thousand events.
// Its events have no credentials of proxies.
type recorder struct {
	events.Recorder
}

func (r recorder) ForComponent(string) events.Recorder { return r }

func (r recorder) WithComponentSuffix(string) events.Recorder { return r }

func (r recorder) WithContext(ctx context.Context) events.Recorder {
	return recorder{r.Recorder.WithContext(ctx)}
}

func (r recorder) Event(reason, message string) {
	r.Recorder.Event(reason, redact(cut(message, maxEvent)))
}

func (r recorder) Eventf(reason, format string, args ...any) {
	r.Event(reason, fmt.Sprintf(format, args...))
}

func (r recorder) Warning(reason, message string) {
	r.Recorder.Warning(reason, redact(cut(message, maxEvent)))
}

func (r recorder) Warningf(reason, format string, args ...any) {
	r.Warning(reason, fmt.Sprintf(format, args...))
}
