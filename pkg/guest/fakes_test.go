package guest_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// newConfig returns a Config with one object.
func newConfig(t *testing.T, kind, content string) *guest.Config {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{
		configv1.GroupVersion.WithResource("infrastructures"): "InfrastructureList",
		configv1.GroupVersion.WithResource("apiservers"):      "APIServerList",
		configv1.GroupVersion.WithResource("proxies"):         "ProxyList",
	}
	object := &unstructured.Unstructured{}
	assert.NilError(t, json.Unmarshal([]byte(content), &object.Object))
	object.SetGroupVersionKind(configv1.GroupVersion.WithKind(kind))
	object.SetName("cluster")
	scheme := runtime.NewScheme()
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, kinds, object)
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
