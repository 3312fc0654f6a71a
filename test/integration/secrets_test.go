//go:build integration

package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
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
