package clouds

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
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
		text, err := usableCA(source, c.CA, position.ConfigMap)
		return text, remarksAbout(source, text), err
	case strings.Contains(path, pemStart), bytes.Contains(position.Decoded(path), []byte(pemStart)):
		source, bundle = source+" in "+e.at("cacert"), e.CACertFile
	case path != "" && !systemBundle(path) && !c.CAElsewhere:
		return "", nil, c.wrong(fmt.Errorf("%s has a path in %s, and pods do not contain that file: "+
			"put the PEM into key %s of the Secret", source, e.at("cacert"), CAKey))
	default:
		return "", nil, nil
	}
	text, err := usableCA(source, bundle, position.Secret)
	if err != nil {
		return "", nil, c.wrong(err)
	}
	return text, remarksAbout(source, text), nil
}

// usableCA returns the bundle as text in UTF-8, or an error unless both the operator and the CSI
// drivers can use it. A driver does not start if a single certificate of the bundle cannot be
// parsed. Comments may have another encoding.
func usableCA(source, bundle string, in position.Carrier) (string, error) {
	const size = 512 << 10 // a generated ConfigMap, which may have 1 MiB, contains more than the CA
	if err := position.Fits(bundle, size); err != nil {
		return "", fmt.Errorf("%s %w. Write only the CA of the cloud into it", source, err)
	}
	valid := strings.ToValidUTF8(bundle, "?")
	if _, err := cert.ParseCertsPEM([]byte(valid)); err != nil {
		return "", fmt.Errorf("%s %s", source, cmp.Or(brokenCertificate(bundle),
			otherBundle(bundle, in)))
	}
	return valid, nil
}

// pemStart is in each text in PEM.
const pemStart = "-----BEGIN"

// brokenCertificate says which certificate of a bundle cannot be parsed, "" if there is none.
func brokenCertificate(bundle string) string {
	number, rest := 0, []byte(bundle)
	for {
		start := len(bundle) - len(rest) + max(bytes.Index(rest, []byte(pemStart)), 0)
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return ""
		}
		if block.Type != cert.CertificateBlockType {
			continue
		}
		number++
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Sprintf("contains a certificate that cannot be parsed: number %d, line %d. Copy it "+
				"again, or remove it", number, 1+strings.Count(bundle[:start], "\n"))
		}
	}
}

// otherBundle returns what a text without a certificate in PEM is, with what to do. It contains no
// part of the text.
func otherBundle(bundle string, in position.Carrier) string {
	const expected = "write one or more certificates in PEM"
	other, start := position.Recognize([]byte(bundle), in), strings.Index(bundle, pemStart)
	line := 1 + strings.Count(bundle[:max(0, start)], "\n")
	first, _, _ := strings.Cut(bundle[max(0, start):], "\n")
	of := fmt.Sprintf("contains no PEM certificate that can be read: the one in line %d ", line)
	switch {
	case other.What != "" && other.What != position.Certificate:
		return other.Instead("a bundle of certificates", expected)
	case start < 0 && other.Line > 0:
		return fmt.Sprintf("contains no PEM certificate that can be read: line %d must be "+
			"-----BEGIN CERTIFICATE-----, with five hyphens on each side", other.Line)
	case start < 0:
		return "contains no PEM certificate. " + strings.ToUpper(expected[:1]) + expected[1:] + " into it"
	case !strings.Contains(bundle, "-----END"):
		return of + "has no end. Copy it again, up to -----END CERTIFICATE-----"
	case strings.Contains(first, `\n`):
		return of + `contains \n as two characters: write line breaks`
	case strings.Contains(first, "-----END"):
		return of + "is in one line: write it with its line breaks"
	case start > 0 && bundle[start-1] != '\n':
		return of + "is indented, or follows other text: start its lines at their beginning, and " +
			"remove what precedes them"
	}
	return of + "is damaged. Copy it again, with the lines -----BEGIN CERTIFICATE----- and " +
		"-----END CERTIFICATE----- and nothing beside them"
}

// remarksAbout returns what is wrong with a bundle that drivers accept.
func remarksAbout(source, bundle string) (remarks []string) {
	rest := []byte(bundle)
	for number := 1; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return remarks
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			remarks = append(remarks, source+" contains a private key, which the operator copies with the "+
				"certificates: remove it, and replace the key")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != cert.CertificateBlockType {
			continue
		}
		if !c.IsCA && !bytes.Equal(c.RawIssuer, c.RawSubject) {
			remarks = append(remarks, fmt.Sprintf("%s: certificate %d is that of a server, not of a CA, so "+
				"it fits only this server until the certificate is renewed. Write the CA that issued it",
				source, number))
		}
		number++
	}
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
