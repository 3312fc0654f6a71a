package hook

import (
	"bytes"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/library-go/pkg/operator/resource/resourcehash"
)

// Neither the hash of library-go nor the hash of another key confirms a password.
func TestHashCannotBeTestedWithoutTheKey(t *testing.T) {
	t.Parallel()
	const name = "Secret ns/credentials"
	data := map[string][]byte{"clouds.yaml": []byte("password: 123456"), "cacert": nil}
	var key, other, unset Key
	key.Set(bytes.Repeat([]byte{1}, KeySize))
	other.Set(bytes.Repeat([]byte{2}, KeySize))
	sum := func(k *Key, name string, content any) string {
		t.Helper()
		hash, err := k.hash(name, content)
		assert.NilError(t, err)
		return hash
	}
	hash := sum(&key, name, data)
	plain, err := resourcehash.GetSecretHash(&corev1.Secret{Data: data})
	assert.NilError(t, err)
	assert.Check(t, !strings.Contains(hash, strings.TrimRight(plain, "=")) &&
		hash != sum(&other, name, data), "the hash %q can be computed without the key", hash)
	assert.Check(t, len(hash) <= 20 && !strings.ContainsAny(hash, ",=/"),
		"%q is no short text that an annotation can list", hash)
	same := map[string][]byte{"cacert": nil, "clouds.yaml": []byte("password: 123456")}
	assert.Check(t, is.Equal(sum(&key, name, same), hash), "hash of the same content")
	longer := map[string][]byte{"clouds.yaml": []byte("password: 1234567")}
	assert.Check(t, hash != sum(&key, name, longer) && hash != sum(&key, "Secret ns/mine", data))
	assert.Check(t, key.made(hash) && !other.made(hash) && !unset.made(hash) && !key.made(plain) &&
		!key.made("absent"), "a hash is not known by its key")
	_, err = unset.hash(name, data)
	assert.Check(t, err != nil && unset.Value() == nil, "without a value there is a hash")
}
