// Package wire is the protocol between the controller and the sidecars of CSI-Addons: the methods
// and their messages, of which wire.proto describes a part, the endpoint of a sidecar, the Lease of
// a driver, the networks of a fence, the audience of the token of the controller, and the pin of
// the certificate of a sidecar. Both programs use it, and the adapter parses networks with it.
package wire

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// LeaseName returns the name of the Lease whose holder serves the controller operations of a
// driver. The Lease is in the namespace of the sidecars. Its holder is the LeaseHolder of a pod.
//
// The CSI-Addons for Ceph derives the same name. Kubernetes accepts no capital letters in names of
// Leases, so this function replaces them by small ones.
func LeaseName(driver string) string {
	return strings.ToLower(replaced(driver)) + "-csi-addons"
}

// LeaseHolder returns the name under which a pod holds Leases. The CSI-Addons for Ceph writes and
// expects the same name. So two pods of a driver must not differ only by dots and hyphens.
func LeaseHolder(pod string) string { return replaced(pod) }

// replaced replaces all characters except letters, digits and hyphens by hyphens, and appends an X
// to a name that would end in a hyphen.
func replaced(name string) string {
	name = regexp.MustCompile(`[^a-zA-Z0-9-]`).ReplaceAllString(name, "-")
	if strings.HasSuffix(name, "-") {
		name += "X"
	}
	return name
}

// ObjectName returns the name of the CSIAddonsNode of a driver in a pod: the name of the pod and a
// hash of both names. So two drivers in one pod have two objects, and so have two pods on one node.
// The controller accepts no other name, so a pod and a driver have one object.
func ObjectName(pod, driver string) string {
	const digits = 10
	sum := sha256.Sum256([]byte(pod + "/" + driver))
	suffix := "-" + hex.EncodeToString(sum[:])[:digits]
	return pod[:min(len(pod), validation.DNS1123SubdomainMaxLength-len(suffix))] + suffix
}

// ChangedSharesTrailer is the key of the gRPC trailer of FenceClusterNetwork that contains the
// number of shares to which access was revoked, as decimal digits. The adapter for Manila sets it,
// and the sidecar passes it on. The specification has no field for it.
const ChangedSharesTrailer = "openstack-changed-shares"

// DefaultPort is the port on which a sidecar serves unless another process uses it.
const DefaultPort = 9070

// MaxEndpoint is the maximum length of the text of an Endpoint in bytes.
const MaxEndpoint = len("pod://") + validation.DNS1123SubdomainMaxLength + len(".") +
	validation.DNS1123LabelMaxLength + len(":65535")

// Endpoint is the address of a sidecar: a port of a pod.
type Endpoint struct {
	Pod, Namespace string
	Port           uint16
}

// String returns pod://<pod>.<namespace>:<port>.
func (e Endpoint) String() string {
	return fmt.Sprintf("pod://%s.%s:%d", e.Pod, e.Namespace, e.Port)
}

// ParseEndpoint parses pod://<pod>.<namespace>:<port>. The name of a pod may contain dots.
func ParseEndpoint(text string) (Endpoint, error) {
	parts := regexp.MustCompile(`^pod://(.+)\.([^.]+):(\d{1,5})$`).FindStringSubmatch(text)
	if parts != nil && len(validation.IsDNS1123Subdomain(parts[1])) == 0 &&
		len(validation.IsDNS1123Label(parts[2])) == 0 {
		port, err := strconv.ParseUint(parts[3], 10, 16)
		if err == nil && port > 0 {
			return Endpoint{Pod: parts[1], Namespace: parts[2], Port: uint16(port)}, nil
		}
	}
	return Endpoint{}, fmt.Errorf("endpoint %.*q is not pod://<pod>.<namespace>:<port>", MaxEndpoint,
		text)
}

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
