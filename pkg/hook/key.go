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

// errNoKey ends a sync that comes before the key. The key is a Secret of the operator, see decision 0017.
var errNoKey = errors.New("the operator has not read the key of its hashes yet")

// Key makes the hashes of inputs. A plain hash of a Secret would let everyone who may read workloads try passwords offline; a hash
// with a key that only the operator reads does not. The zero Key has no value yet. It is safe for concurrent use.
type Key struct {
	value atomic.Pointer[[]byte]
}

// Set gives the key its value, which is random and of KeySize.
func (k *Key) Set(value []byte) {
	value = slices.Clone(value)
	k.value.Store(&value)
}

// Value returns the value, nil as long as there is none.
func (k *Key) Value() []byte {
	if value := k.value.Load(); value != nil {
		return slices.Clone(*value)
	}
	return nil
}

// hash returns a short text for the content of the object called name. Another key makes another text.
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

// made tells whether a hash was made with this key. Only then its difference from another one means another content.
func (k *Key) made(hash string) bool {
	value := k.value.Load()
	return value != nil && strings.HasPrefix(hash, keyID(*value))
}

// keyID begins all hashes of a key.
func keyID(value []byte) string {
	return digest(value, []byte("id"), keyIDSize) + "."
}

func digest(value, text []byte, size int) string {
	mac := hmac.New(sha256.New, value)
	mac.Write(text)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:size])
}
