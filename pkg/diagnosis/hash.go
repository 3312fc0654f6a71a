package diagnosis

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Lengths of the parts of a hash, in bytes before the encoding.
const (
	keyIDSize = 3
	hashSize  = 9
)

// Hash returns the short hash of an object's name and content that InputsAnnotation contains. It
// depends on the key.
func Hash(key []byte, name string, content any) (string, error) {
	text, err := json.Marshal([]any{name, content}) // sorts the keys of maps
	if err != nil {
		return "", fmt.Errorf("hashing: %w", err)
	}
	return KeyID(key) + digest(key, text, hashSize), nil
}

// KeyID returns the prefix of all hashes of a key.
func KeyID(key []byte) string {
	return digest(key, []byte("id"), keyIDSize) + "."
}

func digest(key, text []byte, size int) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:size])
}
