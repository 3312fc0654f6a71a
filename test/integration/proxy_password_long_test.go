//go:build integration && long

package integration

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
)

// TestProxyPasswordIsRedacted changes the proxy at two log levels. newEnv's cleanup checks that
// only containers and observed configuration contain the password.
func TestProxyPasswordIsRedacted(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	for i, level := range []opv1.LogLevel{opv1.Normal, opv1.TraceAll} {
		e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.OperatorLogLevel = level })
		if level != opv1.Normal {
			e.eventually(soon, func() error { return e.hasEvent("OperatorLogLevelChange") })
		}
		password := fmt.Sprintf("leaked-proxy-%d", i)
		e.proxyPasswords = append(e.proxyPasswords, password)
		proxy := "http://user:" + password + "-$&'(,)=%40@proxy.example.com:3128"
		e.setProxy(&configv1.ProxyStatus{HTTPProxy: proxy, HTTPSProxy: proxy})
		e.eventually(soon, func() error {
			return e.hasProxy(map[string]string{"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy})
		})
	}
	e.setProxy(nil)
	e.eventually(soon, func() error { return e.hasProxy(map[string]string{}) })
	e.awaitAvailable()

	for _, reason := range []string{"ObserveProxyConfig", "ObservedConfigChanged"} {
		e.eventually(soon, func() error { return e.hasEvent(reason) })
	}
	events, err := e.events(e.ctx(), "")
	e.must(err)
	for what, text := range map[string]string{"the log": e.log(), "events": fmt.Sprint(events)} {
		assert.Check(t, strings.Contains(text, "REDACTED@proxy.example.com"),
			"%s do not contain the proxy, so this test proves nothing", what)
	}
}
