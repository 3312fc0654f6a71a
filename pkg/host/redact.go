package host

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/openshift/library-go/pkg/operator/events"
)

// userinfo is what comes before the host in a URL, the @ included.
var userinfo = regexp.MustCompile(`://[^\s"/]*@`)

// redact removes the credentials from all URLs in a text. The proxies of a cluster may have some, and library-go quotes observed
// configuration in events, and changes to workloads in the log.
func redact(text string) string {
	return userinfo.ReplaceAllLiteralString(text, "://REDACTED@")
}

// LogFilter is a filter for klog that removes the credentials from all URLs.
type LogFilter struct{}

// Filter handles the arguments of klog.Info and its kind.
func (LogFilter) Filter(args []any) []any {
	filtered := slices.Clone(args)
	for i, arg := range filtered {
		text := fmt.Sprint(arg)
		if safe := redact(text); safe != text {
			filtered[i] = safe
		}
	}
	return filtered
}

// FilterF handles those of klog.Infof and its kind.
func (LogFilter) FilterF(format string, args []any) (string, []any) {
	text := fmt.Sprintf(format, args...)
	if safe := redact(text); safe != text {
		return "%s", []any{safe}
	}
	return format, args
}

// FilterS handles those of klog.InfoS and its kind.
func (f LogFilter) FilterS(msg string, keysAndValues []any) (string, []any) {
	return redact(msg), f.Filter(keysAndValues)
}

// maxEvent bounds the message of an event: an object of a hosted cluster may be quoted in it.
const maxEvent = 4096

func short(message string) string {
	if len(message) <= maxEvent {
		return message
	}
	return strings.ToValidUTF8(message[:maxEvent], "") + "... (truncated)"
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

func (r recorder) Event(reason, message string) { r.Recorder.Event(reason, short(redact(message))) }

func (r recorder) Eventf(reason, format string, args ...any) {
	r.Event(reason, fmt.Sprintf(format, args...))
}

func (r recorder) Warning(reason, message string) { r.Recorder.Warning(reason, short(redact(message))) }

func (r recorder) Warningf(reason, format string, args ...any) {
	r.Warning(reason, fmt.Sprintf(format, args...))
}
