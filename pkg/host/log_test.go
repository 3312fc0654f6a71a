package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/loglevel"
)

// logEverywhere logs a text in the ways that libraries do, and returns the number of entries.
func logEverywhere(ctx context.Context, text string) int {
	err, log := errors.New(text), klog.Background()
	ways := []func(){
		func() { klog.Info(text) },
		func() { klog.Warningf("%s %d%%", text, 1) },
		func() { klog.Error(err) },
		func() { klog.InfoS("message", "key", text, "object", klog.KRef("ns", "name")) },
		func() { klog.ErrorS(err, "message") },
		func() { klog.V(2).InfoS(text, "key", map[string]string{"HTTP_PROXY": text}) },
		func() { klog.V(2).Infof("about %s", text) },
		func() { log.V(2).Info("message", "key", text) },
		func() { log.WithName("name").WithValues("value", text).Error(err, text, "key", err) },
		func() { utilruntime.HandleError(err) },
		func() {
			utilruntime.HandleErrorWithContext(klog.NewContext(ctx, log), err, "message", "key", text)
		},
	}
	for _, way := range ways {
		way()
	}
	return len(ways)
}

// keepKlog restores the state of klog after a test.
func keepKlog(t *testing.T) {
	t.Helper()
	t.Cleanup(klog.CaptureState().Restore)
	assert.NilError(t, loglevel.SetLogLevel(opv1.Normal))
}

//nolint:paralleltest // klog's logger is global
func TestLogHasKlogsFormat(t *testing.T) {
	keepKlog(t)
	native, out := &bytes.Buffer{}, &bytes.Buffer{}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	klog.SetOutputBySeverity("INFO", native)
	const text = "http://proxy:3128 said \"no\""
	logEverywhere(t.Context(), text)
	LogTo(out)
	logEverywhere(t.Context(), text)
	now := regexp.MustCompile(`(?m)^([IWE])\d{4} [\d:.]+`)
	want, got := now.ReplaceAllString(native.String(), "$1"), now.ReplaceAllString(out.String(), "$1")
	assert.Check(t, is.DeepEqual(want, got), "the log (-klog's own +got)")
}

//nolint:paralleltest // klog's logger is global
func TestLogEntriesAreSafe(t *testing.T) {
	keepKlog(t)
	for name, text := range map[string]string{
		"a password":    "http://u:secret@proxy",
		"control":       "a\x1b[31mb\x00c\u009bd\re\n\n",
		"a forged line": "x\nI1122 00:00:00.000000       1 forged.go:1] forged",
		"megabytes":     "http://u:secret@proxy" + strings.Repeat("é\n", 1<<20),
		"no UTF-8":      "\xff\x9b\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			out := &bytes.Buffer{}
			LogTo(out)
			entries := logEverywhere(t.Context(), text)
			got := regexp.MustCompile(`(?m)^[^ \t\n]`).FindAll(out.Bytes(), -1)
			assert.Check(t, is.Len(got, entries), "lines that look like entries")
			assert.Check(t, out.Len() <= entries*(3*maxEntry), "the log has %d bytes", out.Len())
			assert.Check(t, !strings.Contains(out.String(), "secret") && utf8.Valid(out.Bytes()) &&
				!strings.ContainsAny(out.String(), "\x1b\x00\u009b\r"), "the log has %.3000q", out)
		})
	}
}

//nolint:paralleltest // klog's logger is global
func TestLogFollowsTheLevelOfKlog(t *testing.T) {
	keepKlog(t)
	out := &bytes.Buffer{}
	LogTo(out)
	for level, want := range map[opv1.LogLevel]int{
		opv1.Normal: 0, opv1.Debug: 3, opv1.Trace: 6, opv1.TraceAll: 9,
	} {
		assert.NilError(t, loglevel.SetLogLevel(level))
		out.Reset()
		for _, v := range []int{4, 6, 8} {
			klog.V(klog.Level(v)).Info("text")
			klog.V(klog.Level(v)).InfoS("text")
			klog.Background().V(v).Info("text")
		}
		assert.Check(t, is.Equal(strings.Count(out.String(), "\n"), want), "entries at %s", level)
	}
}

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
