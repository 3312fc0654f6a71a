package guest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// observed is an observed configuration like the one its observer writes.
const observed = `{"targetcsiconfig":{"servingInfo":{"minTLSVersion":"VersionTLS12",` +
	`"cipherSuites":["TLS_AES_128_GCM_SHA256"]},` +
	`"proxy":{"HTTPS_PROXY":"http://proxy:1"}}}`

func clientWith(level opv1.LogLevel, observed string) v1helpers.OperatorClientWithFinalizers {
	spec := &opv1.OperatorSpec{ManagementState: opv1.Managed, LogLevel: level}
	if observed != "" {
		spec.ObservedConfig = runtime.RawExtension{Raw: []byte(observed)}
	}
	fake := v1helpers.NewFakeOperatorClient(spec, &opv1.OperatorStatus{}, nil)
	return guest.NewOperator(cached{fake, nil, cache.NewStore(cache.MetaNamespaceKeyFunc)}, "x", "")
}

func TestValidObservedConfigIsReturned(t *testing.T) {
	t.Parallel()
	client := guest.Workloads(clientWith(opv1.Debug, observed), "x", "")
	spec, _, _, err := client.GetOperatorState()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(observed, string(spec.ObservedConfig.Raw)); diff != "" {
		t.Errorf("observed configuration (-want +got):\n%s", diff)
	}
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
		"no JSON":              `{"targetcsiconfig"`,
		"deep":                 strings.Repeat(`{"targetcsiconfig":`, 20000) + "1",
	}
}

// The observer writes the missing values again; until then, workloads wait.
func TestInvalidObservedConfigCountsAsMissing(t *testing.T) {
	t.Parallel()
	for name, raw := range hostile() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := clientWith("", raw)
			spec, _, _, err := client.GetOperatorState()
			if err != nil || len(spec.ObservedConfig.Raw) > 0 {
				t.Errorf("got %.100q, %v; want no observed configuration", spec.ObservedConfig.Raw, err)
			}
			_, _, _, err = guest.Workloads(client, "x", "").GetOperatorState()
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
	spec, _, _, err := clientWith("", raw).GetOperatorState()
	if err != nil {
		t.Fatal(err)
	}
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
			_, _, _, err := guest.Workloads(clientWith(tt.level, tt.observed), "x", "").GetOperatorState()
			wantFault(t, err, "ClusterCSIDriver x", tt.field)
		})
	}
}

// Above Trace, client-go in the sidecars logs Secrets.
func TestLogLevelOfWorkloadsIsLimited(t *testing.T) {
	t.Parallel()
	client := clientWith(opv1.TraceAll, observed)
	for reader, want := range map[v1helpers.OperatorClient]opv1.LogLevel{guest.Workloads(client, "x",
		""): opv1.Trace, client: opv1.TraceAll} {
		spec, _, _, err := reader.GetOperatorState()
		if err != nil {
			t.Fatal(err)
		}
		if spec.LogLevel != want {
			t.Errorf("the log level is %s, want %s", spec.LogLevel, want)
		}
	}
}

func TestUnmanagedWorkloadsAreNotChecked(t *testing.T) {
	t.Parallel()
	inner := v1helpers.NewFakeOperatorClient(&opv1.OperatorSpec{ManagementState: opv1.Unmanaged},
		&opv1.OperatorStatus{}, nil)
	if _, _, _, err := guest.Workloads(inner, "x", "").GetOperatorState(); err != nil {
		t.Error(err)
	}
}

func TestConditionMessagesAreShort(t *testing.T) {
	t.Parallel()
	client := clientWith("", "")
	condition := applyopv1.OperatorCondition().WithType("A").WithStatus(opv1.ConditionTrue).
		WithMessage("a\x00b\x1b[2J\nc\u0085" + strings.Repeat("é", 1<<20))
	if err := client.ApplyOperatorStatus(t.Context(), "test",
		applyopv1.OperatorStatus().WithConditions(condition)); err != nil {
		t.Fatal(err)
	}
	_, status, _, err := client.GetOperatorState()
	if err != nil {
		t.Fatal(err)
	}
	message := status.Conditions[0].Message
	wantPrintable(t, message)
	if !strings.HasPrefix(message, "a?b?[2J\nc?é") || !strings.HasSuffix(message, "(truncated)") {
		t.Errorf("got %.20q...%q", message, message[len(message)-20:])
	}
}

// cached is a client whose cache contains an object that the client does not return.
type cached struct {
	v1helpers.OperatorClientWithFinalizers
	cache.SharedIndexInformer
	store cache.Store
}

func (c cached) Informer() cache.SharedIndexInformer { return c }

func (c cached) GetStore() cache.Store { return c.store }

func TestUndecodableSpecIsAnError(t *testing.T) {
	t.Parallel()
	for spec, field := range map[string]string{
		`"x"`: "field spec of", `{"logLevel": 5}`: "spec.logLevel",
		`{"managementState": []}`: "spec.managementState",
	} {
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		if err := store.Add(clusterCSIDriver(t,
			`{"metadata": {"name": "x"}, "spec": `+spec+`}`)); err != nil {
			t.Fatal(err)
		}
		_, _, _, err := guest.NewOperator(cached{v1helpers.NewFakeOperatorClient(&opv1.OperatorSpec{},
			&opv1.OperatorStatus{}, nil), nil, store}, "x", "").GetOperatorState()
		wantFault(t, err, "ClusterCSIDriver x", field)
	}
}
