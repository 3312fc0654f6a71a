package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// KeySize is the length of a Key in bytes.
const KeySize = 32

// Lengths of the parts of a hash, in bytes before the encoding.
const (
	keyIDSize = 3
	hashSize  = 9
)

// errNoKey ends a sync before the operator has read the key from its Secret; see decision 0017.
var errNoKey = errors.New("the operator has not read the key of its hashes yet")

// Key computes the hashes of rollout inputs. With a plain hash of a Secret, everyone who may read
// workloads could test passwords offline. Only the operator can read the key. The zero Key has no
// value yet. A Key is safe for concurrent use.
type Key struct {
	value atomic.Pointer[[]byte]
}

// Set sets the value, which consists of KeySize random bytes.
func (k *Key) Set(value []byte) {
	value = slices.Clone(value)
	k.value.Store(&value)
}

// Value returns the value, nil if there is none yet.
func (k *Key) Value() []byte {
	if value := k.value.Load(); value != nil {
		return slices.Clone(*value)
	}
	return nil
}

// hash returns a short hash of an object's name and content. It depends on the key.
func (k *Key) hash(name string, content any) (string, error) {
	value := k.value.Load()
	if value == nil {
		return "", errNoKey
	}
	text, err := json.Marshal([]any{name, content}) // sorts the keys of maps
	if err != nil {
		return "", fmt.Errorf("hashing: %w", err)
	}
	return keyID(*value) + digest(*value, text, hashSize), nil
}

// made returns true if this key computed the hash. Hashes of different keys cannot be compared.
func (k *Key) made(hash string) bool {
	value := k.value.Load()
	return value != nil && strings.HasPrefix(hash, keyID(*value))
}

// keyID returns the prefix of all hashes of a key.
func keyID(value []byte) string {
	return digest(value, []byte("id"), keyIDSize) + "."
}

func digest(value, text []byte, size int) string {
	mac := hmac.New(sha256.New, value)
	mac.Write(text)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:size])
}
