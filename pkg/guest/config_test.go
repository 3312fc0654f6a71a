package guest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

func TestClusterIDMustNotBeEmpty(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{
		"of an installer":   "mycluster-x7k2p",
		"upper case":        "MyCluster-x7k2p",
		"of HyperShift":     strings.Repeat("a", 253),
		"digits only":       "0123",
		"dots, underscores": "a.b_c",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := newConfig(t, "Infrastructure", `{"status": {"infrastructureName": "`+id+`"}}`)
			if got, err := config.ClusterID(); err != nil || got != id {
				t.Errorf("got %q, %v; want %q", got, err, id)
			}
		})
	}
}

func TestInvalidInfrastructureIsAnError(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ content, field string }{
		"no ID": {`{"status": {}}`, "status.infrastructureName"},
		"YAML": {
			`{"status": {"infrastructureName": "x\"\n        command: [\"/bin/sh\"]"}}`,
			"status.infrastructureName",
		},
		"a quote": {`{"status": {"infrastructureName": "x\""}}`, "status.infrastructureName"},
		"a placeholder": {
			`{"status": {"infrastructureName": "${TLS_MIN_VERSION}"}}`,
			"status.infrastructureName",
		},
		"an argument": {
			`{"status": {"infrastructureName": "x --kubeconfig=/x"}}`,
			"status.infrastructureName",
		},
		"control": {
			`{"status": {"infrastructureName": "x\u0000\u001b[2J\u2028"}}`,
			"status.infrastructureName",
		},
		"a dash first": {`{"status": {"infrastructureName": "-x"}}`, "status.infrastructureName"},
		"megabytes": {
			`{"status": {"infrastructureName": "` + strings.Repeat("a", 1<<20) + `"}}`,
			"status.infrastructureName",
		},
		"a line end":      {`{"status": {"infrastructureName": "abc\n"}}`, "status.infrastructureName"},
		"a number":        {`{"status": {"infrastructureName": 5}}`, "status.infrastructureName"},
		"a list":          {`{"status": {"infrastructureName": ["x"]}}`, "status.infrastructureName"},
		"status a string": {`{"status": "x"}`, "status"},
		"topology": {
			`{"status": {"infrastructureName": "x", "controlPlaneTopology": "a b"}}`,
			"status.controlPlaneTopology",
		},
		"a ConfigMap path": {
			`{"spec": {"cloudConfig": {"name": "../x"}}, "status": {"infrastructureName": "x"}}`,
			"spec.cloudConfig.name",
		},
		"a key path": {
			`{"spec": {"cloudConfig": {"key": "../x"}}, "status": {"infrastructureName": "x"}}`,
			"spec.cloudConfig.key",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newConfig(t, "Infrastructure", tt.content).ClusterID()
			wantFault(t, err, "Infrastructure cluster of the guest cluster", tt.field)
		})
	}
}

func TestInfrastructureHasOnlyUsedFields(t *testing.T) {
	t.Parallel()
	config := newConfig(t, "Infrastructure", `{
		"metadata": {"annotations": {"a": "b"}},
		"spec": {"cloudConfig": {"name": "c", "key": "k"}, "platformSpec": {"type": "AWS"}},
		"status": {"infrastructureName": "x", "apiServerURL": "https://x",
			"controlPlaneTopology": "External"}}`)
	got, err := config.Infrastructures.Get("cluster")
	assert.NilError(t, err)
	want := &configv1.Infrastructure{}
	want.Name = "cluster"
	want.Spec.CloudConfig = configv1.ConfigMapFileReference{Name: "c", Key: "k"}
	want.Status.InfrastructureName = "x"
	want.Status.ControlPlaneTopology = configv1.ExternalTopologyMode
	assert.Check(t, is.DeepEqual(want, got), "Infrastructure")
}

func TestMissingConfigIsNotFound(t *testing.T) {
	t.Parallel()
	config := newConfig(t, "", "")
	if _, err := config.Infrastructures.Get("cluster"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want that it is not found", err)
	}
	if list, err := config.Proxies.List(nil); err != nil || len(list) > 0 {
		t.Errorf("got %v, %v; want no Proxy", list, err)
	}
}

func TestStaticConfigContainsOnlyTheClusterID(t *testing.T) {
	t.Parallel()
	config, err := guest.NewStaticConfig("my-cluster")
	assert.NilError(t, err)
	config.Start(t.Context().Done())
	if got, err := config.ClusterID(); err != nil || got != "my-cluster" {
		t.Errorf("the cluster ID is %q, %v", got, err)
	}
	for _, informer := range []factory.Informer{
		config.Infrastructures.Informer(), config.APIServers.Informer(), config.Proxies.Informer(),
	} {
		if _, err := informer.AddEventHandler(nil); err != nil || !informer.HasSynced() {
			t.Errorf("an informer has not synced, or refuses a handler: %v", err)
		}
	}
	if _, err := config.APIServers.Get("cluster"); !apierrors.IsNotFound(err) {
		t.Errorf("reading the APIServer: %v", err)
	}
	if list, err := config.Proxies.List(nil); err != nil || len(list) > 0 {
		t.Errorf("the Proxies are %v, %v", list, err)
	}
}

func TestInvalidClusterIDOfStaticConfigIsAnError(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a b", "-a", "a\n--v=9", strings.Repeat("a", 254)} {
		_, err := guest.NewStaticConfig(id)
		assert.Check(t, err != nil && strings.Contains(err.Error(), "flag --cluster-id"),
			"the error for %q is %v", id, err)
	}
}

func TestProxyIsChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ content, field string }{
		"URLs": {`{"httpProxy": "http://user:pass@proxy.example.com:3128",
			"httpsProxy": "https://proxy:1", "noProxy": ".cluster.local,10.0.0.0/8"}`, ""},
		"without a scheme": {`{"httpProxy": "10.0.0.1:3128"}`, ""},
		"nothing":          {`{}`, ""},
		"a long list":      {`{"noProxy": "` + strings.Repeat("10.0.0.1,", 2000) + `"}`, ""},
		"a line end":       {`{"httpProxy": "http://proxy\nX: y"}`, "status.httpProxy"},
		"a space":          {`{"httpsProxy": "http://proxy --x"}`, "status.httpsProxy"},
		"megabytes": {
			`{"httpsProxy": "http://` + strings.Repeat("a", 1<<20) + `"}`,
			"status.httpsProxy",
		},
		"no URL":            {`{"httpProxy": "http://[::1"}`, "status.httpProxy"},
		"megabytes of list": {`{"noProxy": "` + strings.Repeat("a,", 1<<19) + `"}`, "status.noProxy"},
		"a list with NUL":   {`{"noProxy": "a\u0000b"}`, "status.noProxy"},
		"a number":          {`{"noProxy": 5}`, "status.noProxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := newConfig(t, "Proxy", `{"status": `+tt.content+`}`).Proxies.Get("cluster")
			if tt.field != "" {
				wantFault(t, err, "Proxy cluster of the guest cluster", tt.field)
				return
			}
			assert.NilError(t, err)
			var want configv1.ProxyStatus
			assert.NilError(t, json.Unmarshal([]byte(tt.content), &want))
			assert.Check(t, is.DeepEqual(want, got.Status), "status")
		})
	}
}

func TestErrorDoesNotContainProxyPassword(t *testing.T) {
	t.Parallel()
	for _, proxy := range []string{
		"http://user:secret@[::1", "user:secret@proxy.example.com:3128",
		"//user:secret@proxy", "http:user:secret@proxy",
	} {
		_, err := newConfig(t, "Proxy", `{"status": {"httpProxy": "`+proxy+`"}}`).Proxies.Get("cluster")
		wantFault(t, err, "Proxy cluster", "status.httpProxy")
		assert.Check(t, !strings.Contains(err.Error(), "secret"), "the message has the password: %v", err)
	}
}

func TestTLSProfileIsCompleted(t *testing.T) {
	t.Parallel()
	intermediate := configv1.TLSProfiles[configv1.TLSProfileIntermediateType]
	standard := configv1.TLSProfileSpec{
		MinTLSVersion: intermediate.MinTLSVersion,
		Ciphers:       intermediate.Ciphers,
	}
	ciphers := []string{"ECDHE-RSA-AES128-GCM-SHA256"}
	for name, tt := range map[string]struct{ given, want configv1.TLSProfileSpec }{
		"complete": {
			configv1.TLSProfileSpec{MinTLSVersion: "VersionTLS11", Ciphers: ciphers},
			configv1.TLSProfileSpec{MinTLSVersion: "VersionTLS11", Ciphers: ciphers},
		},
		"no version": {
			configv1.TLSProfileSpec{Ciphers: ciphers},
			configv1.TLSProfileSpec{MinTLSVersion: standard.MinTLSVersion, Ciphers: ciphers},
		},
		"no ciphers": {
			configv1.TLSProfileSpec{MinTLSVersion: "VersionTLS13"},
			configv1.TLSProfileSpec{MinTLSVersion: "VersionTLS13", Ciphers: standard.Ciphers},
		},
		"unknown ciphers": {configv1.TLSProfileSpec{
			MinTLSVersion: "VersionTLS12",
			Ciphers:       []string{"ROT13"},
		}, standard},
		"nothing": {configv1.TLSProfileSpec{}, standard},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.Marshal(tt.given)
			assert.NilError(t, err)
			got, err := newConfig(t, "APIServer",
				`{"spec": {"tlsSecurityProfile": {"type": "Custom", "custom": `+string(text)+`}}}`).
				APIServers.Get("cluster")
			assert.NilError(t, err)
			assert.Check(t, is.DeepEqual(tt.want, got.Spec.TLSSecurityProfile.Custom.TLSProfileSpec),
				"the profile differs")
		})
	}
}

func TestInvalidTLSProfileIsAnError(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ content, field string }{
		"version": {
			`{"type": "Custom", "custom": {"minTLSVersion": "x\"\n"}}`,
			"spec.tlsSecurityProfile.custom.minTLSVersion",
		},
		"type": {`{"type": "Best"}`, "spec.tlsSecurityProfile.type"},
		"many ciphers": {`{"type": "Custom", "custom": {"ciphers": [` +
			strings.Repeat(`"AES128-SHA",`, 1<<17) + `"x"]}}`, "spec.tlsSecurityProfile.custom.ciphers"},
		"a number": {
			`{"type": "Custom", "custom": {"minTLSVersion": 5}}`,
			"spec.tlsSecurityProfile.custom.minTLSVersion",
		},
		"type of a type": {`{"type": {}}`, "spec.tlsSecurityProfile.type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newConfig(t, "APIServer",
				`{"spec": {"tlsSecurityProfile": `+tt.content+`}}`).APIServers.Get("cluster")
			wantFault(t, err, "APIServer cluster of the guest cluster", tt.field)
		})
	}
}
