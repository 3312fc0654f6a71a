package cluster

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Key is a key of a ConfigMap that people write.
type Key struct {
	// Value is "" if the key or the ConfigMap does not exist. Exists is true for an empty text.
	Value  string
	Exists bool
	// Source names the key in messages.
	Source string
	// Binary is true if the key is in binaryData: kubectl writes a file there that is not UTF-8.
	Binary bool
}

// KeyOf returns a key of a ConfigMap, which may be nil, with its name for messages.
func KeyOf(configMap *corev1.ConfigMap, name, key string) Key {
	k := Key{Source: fmt.Sprintf("key %s of %s", key, name)}
	if configMap != nil {
		k.Value, k.Exists = configMap.Data[key]
		_, k.Binary = configMap.BinaryData[key]
	}
	return k
}

// Or returns the other key if this one is empty.
func (k Key) Or(other Key) Key {
	if k.Value == "" && !k.Binary && (other.Value != "" || other.Binary) {
		return other
	}
	return k
}

// Text returns the value, or an error that names the source.
func (k Key) Text() (string, error) {
	if k.Binary {
		return "", errors.New(k.Source + " is binary data, not UTF-8 text")
	}
	return k.Value, nil
}
