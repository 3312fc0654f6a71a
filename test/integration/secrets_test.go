//go:build integration

package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestSecretsAreFoundInEveryForm checks what newEnv's cleanup uses to search for secrets.
func TestSecretsAreFoundInEveryForm(t *testing.T) {
	t.Parallel()
	const password = "a-long-password"
	for _, prefix := range []string{"", "x", "xx", "clouds: {password: "} {
		text := base64.StdEncoding.EncodeToString([]byte(prefix + password + "}\n"))
		assert.Check(t, len(found(text, base64Forms(password))) != 0,
			"%q after %q is not found as base64", password, prefix)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NilError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	assert.NilError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	keys, err := keysOf(corev1.Secret{Data: map[string][]byte{corev1.TLSPrivateKeyKey: text}})
	assert.NilError(t, err)
	for _, form := range []string{string(text), base64.StdEncoding.EncodeToString(text)} {
		assert.Check(t, len(found(form, keys)) != 0, "the private key is not found in\n%s", form)
	}
}

// TestProxyPasswordsMayBeInTheEnvironment checks which fields of objects may contain proxies.
func TestProxyPasswordsMayBeInTheEnvironment(t *testing.T) {
	t.Parallel()
	const proxy = "http://user:password@proxy:3128"
	container := func(field string, value any) map[string]any {
		return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{field: value}}}}
	}
	variable := map[string]any{"name": "HTTP_PROXY", "value": proxy}
	deployments := resource("apps", "deployments")
	for name, c := range map[string]struct {
		resource schema.GroupVersionResource
		object   map[string]any
		leaks    bool
	}{
		"environment": {deployments, container("env", []any{variable}), false},
		"argument":    {deployments, container("args", []any{"--proxy=" + proxy}), true},
		"observed configuration": {clusterCSIDrivers(), map[string]any{"spec": map[string]any{
			"observedConfig": map[string]any{"targetcsiconfig": map[string]any{"proxy": proxy}},
		}}, false},
		"condition": {clusterCSIDrivers(), map[string]any{"status": map[string]any{
			"conditions": []any{map[string]any{"message": "cannot use " + proxy}},
		}}, true},
		"Proxy": {configResource("proxies"), map[string]any{
			"status": map[string]any{"httpProxy": proxy},
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leaks, err := leaksOf(c.resource, unstructured.Unstructured{Object: c.object},
				secretTexts{proxies: []string{"password"}})
			assert.NilError(t, err)
			if got := strings.Join(leaks, " "); (got != "") != c.leaks {
				t.Errorf("found %q, want a secret: %v", got, c.leaks)
			}
		})
	}
}
