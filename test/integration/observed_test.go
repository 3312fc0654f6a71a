//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
)

// setProxy sets the status of Proxy/cluster, as the cluster network operator does. nil removes it.
func (e *env) setProxy(status *configv1.ProxyStatus) {
	e.t.Helper()
	text, err := json.Marshal(map[string]any{"status": status})
	e.must(err)
	e.patch(configResource("proxies"), "", "cluster", string(text), "status")
}

// hasProxy returns nil if so many containers have the variable.
func (e *env) hasProxy(want int) error {
	got := 0
	err := e.eachContainer(func(_ workload, c corev1.Container) error {
		if slices.Contains(c.Env, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://proxy:3129"}) {
			got++
		}
		return nil
	})
	return errors.Join(err, checkEqual(want, got))
}

// followsProxy checks that one container of each workload gets the variables, and that the operator
// removes them. The golden files contain all variables of all containers.
func (e *env) followsProxy() {
	e.awaitAvailable()
	e.setProxy(&configv1.ProxyStatus{HTTPSProxy: "http://proxy:3129"})
	e.eventually(prompt, func() error { return e.hasProxy(len(e.subject.Workloads)) })
	e.awaitAvailable()
	e.setProxy(nil)
	e.eventually(prompt, func() error { return e.hasProxy(0) })
	e.awaitAvailable()
}

// setTLSProfile sets the TLS profile of APIServer/cluster. "null" removes it.
func (e *env) setTLSProfile(text string) {
	e.t.Helper()
	e.patch(configResource("apiservers"), "", "cluster", `{"spec":{"tlsSecurityProfile":null}}`)
	e.patch(configResource("apiservers"), "", "cluster", `{"spec":{"tlsSecurityProfile":`+text+`}}`)
}

// hasTLSSettings returns nil if each kube-rbac-proxy has these settings. Empty ciphers accept any.
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
