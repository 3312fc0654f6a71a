package clouds

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/util/cert"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// authority returns the CA of highest precedence, "" for none.
func (c Content) authority(e *entry) (string, error) {
	source := fmt.Sprintf("key %s of %s", Key, c.Name)
	bundle, path := string(c.Data[CAKey]), strings.TrimSpace(e.CACertFile)
	switch {
	case strings.TrimSpace(bundle) != "":
		source = fmt.Sprintf("key %s of %s", CAKey, c.Name)
	case c.CAErr != nil:
		return "", c.CAErr
	case strings.TrimSpace(c.CA) != "":
		return usableCA(cmp.Or(c.CAName, "the CA of the cloud"), c.CA)
	case strings.Contains(path, pemStart), strings.Contains(decoded(path), pemStart):
		source, bundle = source+" in "+e.at("cacert"), e.CACertFile
	case path != "" && !systemBundle(path) && !c.CAElsewhere:
		return "", c.wrong(fmt.Errorf("%s has a path in %s, and pods do not contain that file: put the "+
			"PEM into key %s of the Secret", source, e.at("cacert"), CAKey))
	default:
		return "", nil
	}
	text, err := usableCA(source, bundle)
	if err != nil {
		return "", c.wrong(err)
	}
	return text, nil
}

// usableCA returns the bundle as text in UTF-8, or an error unless both the operator and the CSI
// drivers can use it. A driver does not start if a single certificate of the bundle cannot be
// parsed. Comments may have another encoding.
func usableCA(source, bundle string) (string, error) {
	const size = 512 << 10 // a generated ConfigMap, which may have 1 MiB, contains more than the CA
	if err := position.Fits(bundle, size); err != nil {
		return "", fmt.Errorf("%s %w. Write only the CA of the cloud into it", source, err)
	}
	valid := strings.ToValidUTF8(bundle, "?")
	if _, err := cert.ParseCertsPEM([]byte(valid)); err != nil {
		return "", fmt.Errorf("%s %s", source, cmp.Or(brokenCertificate(bundle), otherBundle(bundle)))
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
func otherBundle(bundle string) string {
	const none = "contains no PEM certificate"
	block, _ := pem.Decode([]byte(bundle))
	plain, text := decoded(bundle), strings.TrimSpace(bundle)
	_, noDER := x509.ParseCertificate([]byte(bundle))
	_, noBody := x509.ParseCertificate([]byte(plain))
	line := 1 + strings.Count(bundle[:max(0, strings.Index(bundle, pemStart))], "\n")
	what := ""
	switch tree, err := position.Tree([]byte(bundle), maxClouds); {
	case noDER == nil:
		return "contains a certificate in DER: convert it with openssl x509 -inform der"
	case noBody == nil:
		return "contains a certificate without the lines -----BEGIN CERTIFICATE----- and -----END " +
			"CERTIFICATE-----: add them"
	case strings.Contains(plain, pemStart):
		return "is encoded as base64 once too often: write the decoded text, or use stringData"
	case block != nil && block.Type == "TRUSTED CERTIFICATE":
		return "contains a TRUSTED CERTIFICATE of OpenSSL: convert it with openssl x509"
	case block != nil && block.Type == "PKCS7":
		return "contains PKCS7: convert it with openssl pkcs7 -print_certs"
	case block != nil && pemHeader.MatchString(pemStart+" "+block.Type+"-----"):
		what = ", but " + block.Type
	case err == nil && !tree.IsZero() && find(mapping(tree.Content[0]), "kind").line > 0:
		what = ": it is a manifest"
	case strings.Contains(bundle, pemStart) && !strings.Contains(bundle, "-----END"):
		return fmt.Sprintf("%s that can be read: what begins in line %d has no end. Copy it again, up "+
			"to -----END CERTIFICATE-----", none, line)
	case strings.Contains(bundle, pemStart):
		return fmt.Sprintf("%s that can be read: write -----BEGIN CERTIFICATE----- (line %d) and "+
			"-----END CERTIFICATE----- on lines of their own, with nothing before or after them", none, line)
	case strings.HasPrefix(text, "<"):
		what = ": it is a web page or XML"
	case placeholder.FindString(text) == text:
		what = ": it is a placeholder"
	case !strings.ContainsAny(text, " \n") && strings.Contains(text, "/"):
		what = ": it is a path or a URL"
	}
	return none + what + ". Write one or more certificates in PEM into it"
}

// decoded returns the text that a text in base64 encodes, "" for another text. It may lack padding
// or its end, and be in quotation marks or in the alphabet of URLs.
func decoded(text string) string {
	text = strings.Trim(strings.Join(strings.Fields(text), ""), "\"'=%") // a shell shows %
	text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	const group = 4 // characters for three bytes
	if len(text)%group == 1 {
		text = text[:len(text)-1]
	}
	plain, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(plain)
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
