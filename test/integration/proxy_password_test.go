//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
)

// TestProxyPasswordIsRedacted checks that only containers contain the password of the cluster's
// proxy: neither the log nor events nor conditions do, at any log level.
func TestProxyPasswordIsRedacted(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	var passwords []string
	for i, level := range []opv1.LogLevel{opv1.Normal, opv1.TraceAll} {
		e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.OperatorLogLevel = level })
		if level != opv1.Normal {
			e.eventually(soon, func() error { return e.hasEvent("OperatorLogLevelChange") })
		}
		password := fmt.Sprintf("leaked-proxy-%d-$&'(,)=%%40", i)
		passwords = append(passwords, password, strings.ReplaceAll(password, "&", `\u0026`),
			fmt.Sprintf("leaked-proxy-%d", i))
		proxy := "http://user:" + password + "@proxy.example.com:3128"
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
	driver, err := e.driver()
	e.must(err)
	for what, object := range map[string]any{
		"the log": e.log(), "events": events,
		"conditions": driver.Status.Conditions,
	} {
		text := fmt.Sprint(object)
		if encoded, err := json.Marshal(object); err == nil && what != "the log" {
			text = string(encoded)
		}
		shown := func(password string) bool { return strings.Contains(text, password) }
		if slices.ContainsFunc(passwords, shown) {
			t.Errorf("the password of the proxy is in %s", what)
		}
		if what != "conditions" && !strings.Contains(text, "REDACTED@proxy.example.com") {
			t.Errorf("%s do not contain the proxy, so this test proves nothing", what)
		}
	}
}
