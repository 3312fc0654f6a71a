//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
)

func proxyVariables() []string { return []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} }

// setProxy sets the status of Proxy/cluster, as the cluster network operator does. nil removes it.
func (e *env) setProxy(status *configv1.ProxyStatus) {
	e.t.Helper()
	text, err := json.Marshal(map[string]any{"status": status})
	e.must(err)
	e.patch(configResource("proxies"), "", "cluster", string(text), "status")
}

// hasProxy returns nil if csi-driver of each workload has exactly these proxy variables, each once,
// and other containers have none.
func (e *env) hasProxy(want map[string]string) error {
	return e.eachContainer(func(_ workload, c corev1.Container) error {
		if c.Name == "csi-driver" {
			return hasVariables(c, want)
		}
		return hasVariables(c, map[string]string{})
	})
}

func hasVariables(c corev1.Container, want map[string]string) error {
	got := map[string]string{}
	for _, variable := range c.Env {
		if !slices.Contains(proxyVariables(), strings.ToUpper(variable.Name)) {
			continue
		}
		if _, twice := got[variable.Name]; twice {
			return fmt.Errorf("%s is set twice", variable.Name)
		}
		got[variable.Name] = variable.Value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("its proxy variables differ (-want +got):\n%s", diff)
	}
	return nil
}

// followsProxy checks that only containers that may connect to the cloud get the variables, each
// once, and that the operator removes them.
func (e *env) followsProxy() {
	e.awaitAvailable()
	e.must(e.hasProxy(map[string]string{}))

	e.setProxy(&configv1.ProxyStatus{
		HTTPProxy:  "http://proxy.example.com:3128",
		HTTPSProxy: "http://proxy.example.com:3129", NoProxy: ".cluster.local,10.0.0.0/16",
	})
	want := map[string]string{
		"HTTP_PROXY": "http://proxy.example.com:3128", "HTTPS_PROXY": "http://proxy.example.com:3129",
		"NO_PROXY": ".cluster.local,10.0.0.0/16",
	}
	e.eventually(prompt, func() error { return e.hasProxy(want) })
	e.awaitAvailable()

	e.setProxy(nil)
	e.eventually(prompt, func() error { return e.hasProxy(map[string]string{}) })
	e.awaitAvailable()
}

// setTLSProfile sets the TLS profile of APIServer/cluster. "null" removes it.
func (e *env) setTLSProfile(text string) {
	e.t.Helper()
	e.patch(configResource("apiservers"), "", "cluster", `{"spec":{"tlsSecurityProfile":null}}`)
	e.patch(configResource("apiservers"), "", "cluster", `{"spec":{"tlsSecurityProfile":`+text+`}}`)
}

// hasTLSSettings returns nil if each kube-rbac-proxy has these TLS settings. Empty ciphers accept
// any.
func (e *env) hasTLSSettings(version, ciphers string) error {
	w, err := e.workload(controllerName)
	if err != nil {
		return err
	}
	found := 0
	for _, c := range w.containers() {
		if !strings.HasSuffix(c.Name, "kube-rbac-proxy") {
			continue
		}
		found++
		if got, _ := argument(c, "tls-min-version"); got != version {
			return fmt.Errorf("%s has --tls-min-version=%s, want %s", c.Name, got, version)
		}
		got, _ := argument(c, "tls-cipher-suites")
		if ciphers != "" && got != ciphers {
			return fmt.Errorf("%s has --tls-cipher-suites=%s, want %s", c.Name, got, ciphers)
		}
	}
	if found != 3 {
		return fmt.Errorf("there are %d kube-rbac-proxies, want 3", found)
	}
	return e.hasCompleteArguments()
}

// hasCompleteArguments returns an error if an argument of a container is empty, has no value or
// contains a placeholder.
func (e *env) hasCompleteArguments() error {
	return e.eachContainer(func(_ workload, c corev1.Container) error {
		for _, arg := range c.Args {
			if strings.Contains(arg, "${") || strings.HasSuffix(arg, "=") || arg == "" {
				return fmt.Errorf("it has the argument %q", arg)
			}
		}
		return nil
	})
}

// followsTLSProfile checks that settings that a profile omits become defaults, never empty
// arguments or placeholders.
func (e *env) followsTLSProfile() {
	e.awaitAvailable()
	e.must(e.hasTLSSettings("VersionTLS12", ""))
	for _, profile := range []struct{ name, text, version, ciphers string }{
		{
			"modern", `{"type":"Modern","modern":{}}`, "VersionTLS13",
			"TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256",
		},
		{"custom with nothing", `{"type":"Custom","custom":{}}`, "VersionTLS12", ""},
		{"none", `null`, "VersionTLS12", ""},
	} {
		e.sub(profile.name, func(*testing.T) {
			e.setTLSProfile(profile.text)
			e.eventually(prompt, func() error { return e.hasTLSSettings(profile.version, profile.ciphers) })
			e.throughout(pollEvery, e.hasCompleteArguments)
		})
	}
	e.eventually(soon, e.notDegraded)
}

func TestContainersFollowConfigOfCluster(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Args: []string{"-v=10"}})
	e.parts(
		part{"FollowsLogLevel", e.followsLogLevel},
		part{"FollowsProxy", e.followsProxy},
		part{"FollowsTLSProfile", e.followsTLSProfile},
		part{"LogsNoBodies", e.logsNoBodies},
	)
}

// followsLogLevel checks every container with a verbosity. TraceAll has the effect of Trace.
func (e *env) followsLogLevel() {
	e.awaitAvailable()
	for level, want := range map[opv1.LogLevel]string{
		opv1.TraceAll: "6", opv1.Normal: "2",
	} {
		e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.LogLevel = level })
		e.eventually(prompt, func() error { return e.hasVerbosity(want) })
	}
}

func (e *env) hasVerbosity(want string) error {
	var seen []string
	err := e.eachContainer(func(_ workload, c corev1.Container) error {
		got, found := argument(c, "v")
		exempt := strings.HasSuffix(c.Name, "kube-rbac-proxy") || c.Name == "wait-for-nfs-plugin"
		if !found && exempt {
			return nil // one would log headers, the other is a shell
		}
		seen = append(seen, c.Name)
		if got != want {
			return fmt.Errorf("it has --v=%s, want %s", got, want)
		}
		return nil
	})
	if err == nil && !slices.Contains(seen, "csi-driver-nfs") {
		err = fmt.Errorf("csi-driver-nfs is not among the containers %v", seen)
	}
	return err
}

// logsNoBodies writes a Secret at the highest log level. newEnv's cleanup checks that the log
// contains no bodies of requests.
func (e *env) logsNoBodies() {
	e.awaitAvailable()
	e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.OperatorLogLevel = opv1.TraceAll })
	e.eventually(soon, func() error {
		// The operator reads its Lease at the level of the flag, before it reads the driver's level.
		for _, want := range []string{
			"/namespaces/" + operatorNamespace + "/leases/", `level changed from "Normal" to "Trace"`,
		} {
			if !strings.Contains(e.log(), want) {
				return fmt.Errorf("the operator's log does not contain %q: the level has not changed", want)
			}
		}
		return nil
	})
	e.delete(secrets(), operandNamespace, loginSecret)
	e.eventually(prompt, func() error { return e.hasTranslation(e.passwordTranslation()) })
}
