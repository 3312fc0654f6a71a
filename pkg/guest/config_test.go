package guest_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

func newConfig(t *testing.T, kind, content string) *guest.Config {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{
		configv1.GroupVersion.WithResource("infrastructures"): "InfrastructureList",
		configv1.GroupVersion.WithResource("apiservers"):      "APIServerList",
		configv1.GroupVersion.WithResource("proxies"):         "ProxyList",
	}
	object := decoded(t, content)
	object.SetGroupVersionKind(configv1.GroupVersion.WithKind(kind))
	object.SetName("cluster")
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, object)
	config := guest.NewConfig(client, " of the guest cluster")
	config.Start(t.Context().Done())
	assert.Assert(t, cache.WaitForCacheSync(t.Context().Done(),
		config.Infrastructures.Informer().HasSynced, config.APIServers.Informer().HasSynced,
		config.Proxies.Informer().HasSynced))
	return config
}

// wantFault expects a printable error that names object and field.
func wantFault(t *testing.T, err error, object, field string) {
	t.Helper()
	assert.Assert(t, err != nil, "got no error, want one about field %s of %s", field, object)
	message := err.Error()
	assert.Check(t, strings.Contains(message, object) && strings.Contains(message, field),
		"the message does not name field %s of %s: %s", field, object, message)
	wantPrintable(t, message)
}

func wantPrintable(t *testing.T, message string) {
	t.Helper()
	assert.Check(t, len(message) <= 4200, "the message is %d bytes long", len(message))
	hidden := func(r rune) bool { return r != '\n' && unicode.IsControl(r) }
	assert.Check(t, !strings.ContainsFunc(message, hidden), "control characters are in %q", message)
}

func TestClusterIDIsChecked(t *testing.T) {
	t.Parallel()
	const field = "status.infrastructureName"
	for name, tt := range map[string]struct{ id, field string }{
		"of an installer":   {`"MyCluster-x7k2p"`, ""},
		"of HyperShift":     {`"` + strings.Repeat("a", 253) + `"`, ""},
		"digits only":       {`"0123"`, ""},
		"dots, underscores": {`"a.b_c"`, ""},
		"nothing":           {`""`, field},
		"YAML":              {`"x\"\n        command: [\"/bin/sh\"]"`, field},
		"a quote":           {`"x\""`, field},
		"a placeholder":     {`"${TLS_MIN_VERSION}"`, field},
		"an argument":       {`"x --kubeconfig=/x"`, field},
		"control":           {`"x\u0000\u001b[2J\u2028"`, field},
		"a dash first":      {`"-x"`, field},
		"megabytes":         {`"` + strings.Repeat("a", 1<<20) + `"`, field},
		"a line end":        {`"abc\n"`, field},
		"a number":          {`5`, field},
		"a list":            {`["x"]`, field},
		"another field":     {`"x", "controlPlaneTopology": "a b"`, "status.controlPlaneTopology"},
		"a ConfigMap path":  {`"x"}, "spec": {"cloudConfig": {"name": "../x"}`, "spec.cloudConfig.name"},
		"a key path":        {`"x"}, "spec": {"cloudConfig": {"key": "../x"}`, "spec.cloudConfig.key"},
		"no object":         {`"x"}, "status": "x", "spec": {`, "status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := newConfig(t, "Infrastructure", `{"status": {"infrastructureName": `+tt.id+`}}`)
			got, err := config.ClusterID()
			if tt.field != "" {
				wantFault(t, err, "Infrastructure cluster of the guest cluster", tt.field)
				return
			}
			assert.NilError(t, err)
			assert.Check(t, is.Equal(`"`+got+`"`, tt.id))
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

func TestRecordedClusterIDIsChecked(t *testing.T) {
	t.Parallel()
	for id, valid := range map[string]bool{
		"my-cluster": true, "": false, "a b": false, "-a": false, "a\n--v=9": false,
		strings.Repeat("a", 254): false,
	} {
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		object := &unstructured.Unstructured{Object: map[string]any{
			"status": map[string]any{"clusterID": id},
		}}
		object.SetName("x")
		assert.NilError(t, store.Add(object))
		config := guest.NewStaticConfig(func() (string, error) {
			return guest.RecordedClusterID(store, "x", "ManilaDriver x")
		})
		config.Start(t.Context().Done())
		got, err := config.ClusterID()
		if valid {
			assert.Check(t, err == nil && got == id, "got %q, %v", got, err)
			continue
		}
		wantFault(t, err, "ManilaDriver x", "status.clusterID")
	}
}

func TestProxyIsChecked(t *testing.T) {
	t.Parallel()
	megabyte := strings.Repeat("a", 1<<20)
	for name, tt := range map[string]struct{ content, field string }{
		"URLs": {`{"httpProxy": "http://user:pass@proxy.example.com:3128",
			"httpsProxy": "https://proxy:1", "noProxy": ".cluster.local,10.0.0.0/8"}`, ""},
		"without a scheme":  {`{"httpProxy": "10.0.0.1:3128"}`, ""},
		"nothing":           {`{}`, ""},
		"a long list":       {`{"noProxy": "` + strings.Repeat("10.0.0.1,", 2000) + `"}`, ""},
		"a line end":        {`{"httpProxy": "http://proxy\nX: y"}`, "status.httpProxy"},
		"a space":           {`{"httpsProxy": "http://proxy --x"}`, "status.httpsProxy"},
		"megabytes":         {`{"httpsProxy": "http://` + megabyte + `"}`, "status.httpsProxy"},
		"no URL":            {`{"httpProxy": "http://user:secret@[::1"}`, "status.httpProxy"},
		"a password":        {`{"httpProxy": "user:secret@proxy.example.com:3128"}`, "status.httpProxy"},
		"no scheme":         {`{"httpProxy": "//user:secret@proxy"}`, "status.httpProxy"},
		"no slashes":        {`{"httpProxy": "http:user:secret@proxy"}`, "status.httpProxy"},
		"megabytes of list": {`{"noProxy": "` + megabyte + `"}`, "status.noProxy"},
		"a list with NUL":   {`{"noProxy": "a\u0000b"}`, "status.noProxy"},
		"a number":          {`{"noProxy": 5}`, "status.noProxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxies := newConfig(t, "Proxy", `{"status": `+tt.content+`}`).Proxies
			got, err := proxies.Get("cluster")
			if tt.field != "" {
				wantFault(t, err, "Proxy cluster of the guest cluster", tt.field)
				_, errList := proxies.List(nil)
				assert.Check(t, is.Error(errList, err.Error()))
				assert.Check(t, !strings.Contains(err.Error(), "secret"), "a password is shown: %v", err)
				return
			}
			assert.NilError(t, err)
			var want configv1.ProxyStatus
			assert.NilError(t, json.Unmarshal([]byte(tt.content), &want))
			assert.Check(t, is.DeepEqual(want, got.Status), "status")
		})
	}
}

func TestTLSProfileIsCheckedAndCompleted(t *testing.T) {
	t.Parallel()
	const version = "custom.minTLSVersion"
	usual := configv1.TLSProfiles[configv1.TLSProfileIntermediateType]
	type profile = configv1.TLSProfileSpec
	for name, tt := range map[string]struct {
		custom string
		want   profile
		field  string
	}{
		"no version": {
			custom: `"ciphers": ["ECDHE-RSA-AES128-GCM-SHA256"]`,
			want: profile{
				MinTLSVersion: usual.MinTLSVersion, Ciphers: []string{"ECDHE-RSA-AES128-GCM-SHA256"},
			},
		},
		"unknown ciphers": {
			custom: `"minTLSVersion": "VersionTLS13", "ciphers": ["ROT13"]`,
			want:   profile{MinTLSVersion: "VersionTLS13", Ciphers: usual.Ciphers},
		},
		"nothing":         {want: profile{Ciphers: usual.Ciphers, MinTLSVersion: usual.MinTLSVersion}},
		"invalid version": {custom: `"minTLSVersion": "x\"\n"`, field: version},
		"number":          {custom: `"minTLSVersion": 5`, field: version},
		"many ciphers": {
			custom: `"ciphers": [` + strings.Repeat(`"a",`, 1<<17) + `"x"]`, field: "custom.ciphers",
		},
		"another type":   {custom: `}, "type": "Best", "x": {`, field: "type"},
		"type of a type": {custom: `}, "type": {}, "x": {`, field: "type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := newConfig(t, "APIServer",
				`{"spec": {"tlsSecurityProfile": {"type": "Custom", "custom": {`+tt.custom+`}}}}`).
				APIServers.Get("cluster")
			if tt.field != "" {
				wantFault(t, err, "APIServer cluster of the guest cluster", "spec.tlsSecurityProfile."+tt.field)
				return
			}
			assert.NilError(t, err)
			assert.Check(t, is.DeepEqual(tt.want, got.Spec.TLSSecurityProfile.Custom.TLSProfileSpec))
		})
	}
}
