package hook

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// KeySize is the length of a Key in bytes.
const KeySize = 32

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

// hash returns diagnosis.Hash with the key.
func (k *Key) hash(name string, content any) (string, error) {
	value := k.value.Load()
	if value == nil {
		return "", errNoKey
	}
	return diagnosis.Hash(*value, name, content)
}

// made returns true if this key computed the hash. Hashes of different keys cannot be compared.
func (k *Key) made(hash string) bool {
	value := k.value.Load()
	return value != nil && strings.HasPrefix(hash, diagnosis.KeyID(*value))
}
