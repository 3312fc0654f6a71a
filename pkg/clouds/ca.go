package clouds

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/util/cert"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// authority returns the CA of highest precedence, "" for none, and remarks about it.
func (c Content) authority(e *entry) (string, []string, error) {
	source := fmt.Sprintf("key %s of %s", Key, c.Name)
	bundle, path := string(c.Data[CAKey]), strings.TrimSpace(e.CACertFile)
	switch {
	case strings.TrimSpace(bundle) != "":
		source = fmt.Sprintf("key %s of %s", CAKey, c.Name)
	case c.CAErr != nil:
		return "", nil, c.CAErr
	case strings.TrimSpace(c.CA) != "":
		source = cmp.Or(c.CAName, "the CA of the cloud")
		return usableCA(source, c.CA, position.ConfigMap)
	case strings.Contains(path, pemStart), bytes.Contains(position.Decoded(path), []byte(pemStart)):
		source, bundle = source+" in "+e.at("cacert"), e.CACertFile
	case IsOtherFile(path) && !c.CAElsewhere:
		return "", nil, c.wrong(fmt.Errorf("%s has a path in %s, and pods do not contain that file: "+
			"put the PEM into key %s of the Secret", source, e.at("cacert"), CAKey))
	default:
		return "", nil, nil
	}
	text, remarks, err := usableCA(source, bundle, position.Secret)
	if err != nil {
		err = c.wrong(err)
	}
	return text, remarks, err
}

// usableCA returns the bundle as text in UTF-8 with remarks, or an error unless both the operator
// and the CSI drivers can use it. A driver does not start if a single certificate of the bundle
// cannot be parsed. Comments may have another encoding.
func usableCA(source, bundle string, in position.Carrier) (string, []string, error) {
	const size = 512 << 10 // a generated ConfigMap, which may have 1 MiB, contains more than the CA
	if err := position.Fits(bundle, size); err != nil {
		return "", nil, fmt.Errorf("%s %w. Write only the CA of the cloud into it", source, err)
	}
	valid := strings.ToValidUTF8(bundle, "?")
	blocks := blocksOf(bundle)
	if _, err := cert.ParseCertsPEM([]byte(valid)); err != nil {
		return "", nil, fmt.Errorf("%s %s", source, otherBundle(bundle, blocks, in))
	}
	return valid, remarksAbout(source, blocks), nil
}

// pemStart is in each text in PEM.
const pemStart = "-----BEGIN"

// IsOtherFile returns whether what an entry says about the CA is a path of no file in pods.
func IsOtherFile(path string) bool {
	return path != "" && !systemBundle(path) && !strings.Contains(path, pemStart)
}

// systemBundle returns true for the paths of the bundles that programs in Go read as the roots of
// the system: the list certFiles of crypto/x509 for Linux.
func systemBundle(path string) bool {
	return slices.Contains([]string{
		"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem",
		"/etc/pki/tls/cacert.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/ssl/cert.pem",
	}, path)
}
