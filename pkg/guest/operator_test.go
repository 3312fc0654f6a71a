package guest_test

import (
	"encoding/json"
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

// readForWorkloads returns the spec for workload controllers.
func readForWorkloads(level opv1.LogLevel, raw string) (*opv1.OperatorSpec, error) {
	spec, err := read(raw)
	if err != nil {
		return nil, err
	}
	spec.LogLevel = level
	return guest.WorkloadSpec("ClusterCSIDriver x", spec)
}

func TestValidObservedConfigIsReturned(t *testing.T) {
	t.Parallel()
	spec, err := readForWorkloads(opv1.Debug, observed)
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual(observed, string(spec.ObservedConfig.Raw)), "observed configuration")
}

// hostile returns observed configurations that must not be returned.
func hostile() map[string]string {
	version := func(value string) string {
		return strings.Replace(observed, "VersionTLS12", value, 1)
	}
	cipher := func(value string) string {
		return strings.Replace(observed, "TLS_AES_128_GCM_SHA256",
			value, 1)
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
			assert.Assert(t, err == nil && len(spec.ObservedConfig.Raw) <= 0,
				"got %v, %v; want no observed configuration", spec, err)
			_, err = readForWorkloads("", raw)
			wantFault(t, err, "ClusterCSIDriver x",
				"spec.observedConfig.targetcsiconfig.servingInfo.minTLSVersion")
		})
	}
}

// Callers read the values that were checked: keys that differ in case are one field for a decoder
// and two for a map.
func TestObservedConfigIsReencoded(t *testing.T) {
	t.Parallel()
	raw := `{"targetcsiconfig":{"servingInfo":{"minTLSVersion":"evil\"","MinTLSVersion":"VersionTLS12",
		"cipherSuites":["TLS_A"]}}}`
	spec, err := read(raw)
	assert.NilError(t, err)
	if strings.Contains(string(spec.ObservedConfig.Raw), "evil") {
		t.Errorf("got %s", spec.ObservedConfig.Raw)
	}
}

func TestWorkloadsNeedCompleteConfig(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		level           opv1.LogLevel
		observed, field string
	}{
		"no observed configuration": {
			"", "",
			"spec.observedConfig.targetcsiconfig.servingInfo.minTLSVersion",
		},
		"no ciphers": {
			"",
			`{"targetcsiconfig":{"servingInfo":{"minTLSVersion":"VersionTLS12"}}}`,
			"spec.observedConfig.targetcsiconfig.servingInfo.cipherSuites",
		},
		"no version": {
			"",
			`{"targetcsiconfig":{"servingInfo":{"cipherSuites":["TLS_A"]}}}`,
			"spec.observedConfig.targetcsiconfig.servingInfo.minTLSVersion",
		},
		"only a proxy": {
			"", `{"targetcsiconfig":{"proxy":{"NO_PROXY":"a"}}}`,
			"spec.observedConfig.targetcsiconfig.servingInfo.cipherSuites",
		},
		"a log level": {"Loud\n", observed, "spec.logLevel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readForWorkloads(tt.level, tt.observed)
			wantFault(t, err, "ClusterCSIDriver x", tt.field)
		})
	}
}

// Above Trace, client-go in the sidecars logs Secrets.
func TestLogLevelOfWorkloadsIsLimited(t *testing.T) {
	t.Parallel()
	spec, err := readForWorkloads(opv1.TraceAll, observed)
	assert.NilError(t, err)
	if spec.LogLevel != opv1.Trace {
		t.Errorf("the log level is %s", spec.LogLevel)
	}
}

func TestUnmanagedWorkloadsAreNotChecked(t *testing.T) {
	t.Parallel()
	spec := &opv1.OperatorSpec{ManagementState: opv1.Unmanaged}
	if _, err := guest.WorkloadSpec("ClusterCSIDriver x", spec); err != nil {
		t.Error(err)
	}
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
