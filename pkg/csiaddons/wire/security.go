package wire

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Audience returns the audience of the token that the controller sends to the sidecar of a pod.
// Neither the API server nor the sidecar of another pod accepts such a token.
func Audience(pod types.UID) string { return "csiaddons.openshift.io/" + string(pod) }

// TokenHeader is the gRPC metadata that contains the token, after TokenPrefix.
const (
	TokenHeader = "authorization"
	TokenPrefix = "Bearer "
)

// Pin returns the pin of a certificate, which identifies its public key: the SHA-256 of the key in
// the format PKIX, as hexadecimal digits after sha256:.
func Pin(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// PinnedTLS returns the configuration of a client that accepts only the server whose certificate
// has the pin. No CA issues certificates for the addresses of pods.
func PinnedTLS(pin string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies the public key
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the sidecar sent no certificate")
			}
			got := Pin(state.PeerCertificates[0])
			if subtle.ConstantTimeCompare([]byte(got), []byte(pin)) != 1 {
				return fmt.Errorf("the certificate has the pin %s, want %s: "+
					"another process answers at the address of the sidecar", got, pin)
			}
			return nil
		},
	}
}
