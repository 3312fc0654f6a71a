package guest_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// observed is an observed configuration like the one its observer writes.
const observed = `{"targetcsiconfig":{"servingInfo":{"minTLSVersion":"VersionTLS12",` +
	`"cipherSuites":["TLS_AES_128_GCM_SHA256"]},` +
	`"proxy":{"HTTPS_PROXY":"http://proxy:1"}}}`

// read returns the checked spec with an observed configuration.
func read(raw string) (*opv1.OperatorSpec, error) {
	spec := map[string]any{"managementState": "Managed"}
	if raw != "" {
		spec["observedConfig"] = json.RawMessage(raw)
	}
	return guest.Spec("ClusterCSIDriver x", spec)
}

func readForWorkloads(level opv1.LogLevel, raw string) (*opv1.OperatorSpec, error) {
	spec, err := read(raw)
	if err != nil {
		return nil, err
	}
	spec.LogLevel = level
	return guest.WorkloadSpec("ClusterCSIDriver x", spec)
}

// Above Trace, client-go in the sidecars logs Secrets. Callers read the values that were checked:
// keys that differ in case are one field for a decoder and two for a map.
func TestWorkloadsGetOnlyCheckedValues(t *testing.T) {
	t.Parallel()
	evil := strings.Replace(observed, `"minTLSVersion"`, `"minTLSVersion":"evil\"","MinTLSVersion"`, 1)
	for level, want := range map[opv1.LogLevel]opv1.LogLevel{
		opv1.Debug: opv1.Debug, opv1.TraceAll: opv1.Trace,
	} {
		for _, raw := range []string{observed, evil} {
			spec, err := readForWorkloads(level, raw)
			assert.NilError(t, err)
			assert.Check(t, is.Equal(string(spec.ObservedConfig.Raw), observed))
			assert.Check(t, is.Equal(spec.LogLevel, want))
		}
	}
}

// hostile returns observed configurations that must not be returned.
func hostile() map[string]string {
	version := func(value string) string {
		return strings.Replace(observed, "VersionTLS12", value, 1)
	}
	cipher := func(value string) string {
		return strings.Replace(observed, "TLS_AES_128_GCM_SHA256", value, 1)
	}
	return map[string]string{
		"YAML in the version": version(`x\"\n        command: [\"/bin/sh\", \"-c\", ` +
			`\"id\"]\n        x: \"`),
		"a quote":               version(`\"`),
		"another version":       version("VersionTLS14"),
		"control characters":    version(`VersionTLS12\u0000`),
		"a placeholder":         version("${CLUSTER_ID}"),
		"YAML in a cipher":      cipher(`TLS_X\"\n- evil: \"`),
		"a comma in a cipher":   cipher("TLS_A,TLS_B"),
		"megabytes of a cipher": cipher("TLS_" + strings.Repeat("A", 1<<20)),
		"many ciphers": strings.Replace(observed, `"TLS_AES_128_GCM_SHA256"`,
			strings.Repeat(`"TLS_A",`, 1<<17)+`"TLS_A"`, 1),
		"other variables":      strings.Replace(observed, "HTTPS_PROXY", "LD_PRELOAD", 1),
		"other fields":         strings.Replace(observed, "servingInfo", "other", 1),
		"a proxy of two lines": strings.Replace(observed, "http://proxy:1", `http://proxy\n:1`, 1),
		"a number":             strings.Replace(observed, `"VersionTLS12"`, "12", 1),
		"no object":            `"x"`,
		"deep": strings.Repeat(`{"targetcsiconfig":`, 5000) + "1" +
			strings.Repeat("}", 5000),
	}
}

// The observer writes the missing values again; until then, workloads wait.
func TestInvalidObservedConfigCountsAsMissing(t *testing.T) {
	t.Parallel()
	for name, raw := range hostile() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, err := read(raw)
			assert.Assert(t, err == nil && len(spec.ObservedConfig.Raw) == 0,
				"got %v, %v; want no observed configuration", spec, err)
			_, err = readForWorkloads("", raw)
			wantFault(t, err, "ClusterCSIDriver x",
				"spec.observedConfig.targetcsiconfig.servingInfo.minTLSVersion")
		})
	}
}

func TestWorkloadsNeedCompleteConfig(t *testing.T) {
	t.Parallel()
	for incomplete, missing := range map[string]string{
		`"servingInfo":{"minTLSVersion":"VersionTLS12"}`: "cipherSuites",
		`"servingInfo":{"cipherSuites":["TLS_A"]}`:       "minTLSVersion",
		`"proxy":{"NO_PROXY":"a"}`:                       "cipherSuites",
	} {
		_, err := readForWorkloads("", `{"targetcsiconfig":{`+incomplete+`}}`)
		wantFault(t, err, "ClusterCSIDriver x",
			"spec.observedConfig.targetcsiconfig.servingInfo."+missing)
	}
	_, err := readForWorkloads("Loud\n", observed)
	wantFault(t, err, "ClusterCSIDriver x", "spec.logLevel")
}

func TestUnmanagedWorkloadsAreNotChecked(t *testing.T) {
	t.Parallel()
	spec := &opv1.OperatorSpec{ManagementState: opv1.Unmanaged}
	_, err := guest.WorkloadSpec("ClusterCSIDriver x", spec)
	assert.NilError(t, err)
}

func TestUndecodableSpecIsAnError(t *testing.T) {
	t.Parallel()
	for text, field := range map[string]string{
		`"x"`: "field spec of", `{"logLevel": 5}`: "spec.logLevel",
		`{"managementState": []}`: "spec.managementState",
	} {
		_, err := guest.Spec("ClusterCSIDriver x", json.RawMessage(text))
		wantFault(t, err, "ClusterCSIDriver x", field)
	}
}

// FuzzObserved proves that an observed configuration adds only safe text to a manifest, and that
// every error is printable.
func FuzzObserved(f *testing.F) {
	f.Add(observed)
	f.Add("")
	for _, raw := range hostile() {
		f.Add(raw[:min(len(raw), 4096)])
	}
	safe := regexp.MustCompile(`^[A-Za-z0-9_,]*$`)
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) {
			return // no part of an object
		}
		spec, err := readForWorkloads("", raw)
		if err != nil {
			wantPrintable(t, err.Error())
			return
		}
		var config struct {
			TargetCSIConfig struct {
				ServingInfo struct {
					MinTLSVersion string
					CipherSuites  []string
				}
				Proxy map[string]string
			}
		}
		assert.NilError(t, json.Unmarshal(spec.ObservedConfig.Raw, &config))
		info := config.TargetCSIConfig.ServingInfo
		text := info.MinTLSVersion + strings.Join(info.CipherSuites, ",")
		assert.Check(t, safe.MatchString(text) && len(text) <= 8192 && info.MinTLSVersion != "", text)
		for name := range config.TargetCSIConfig.Proxy {
			assert.Check(t, strings.HasSuffix(name, "_PROXY"), "got the variable %q", name)
		}
	})
}
