package openstack

import (
	"errors"
	"unicode/utf8"

	"k8s.io/client-go/util/cert"
)

// CheckCA returns an error unless both the operator and the CSI drivers can use the bundle. A
// driver does not start if a single certificate of the bundle cannot be parsed. The text of the
// error follows the name of the place that contains the bundle.
func CheckCA(bundle []byte) error {
	if !utf8.Valid(bundle) {
		return errors.New("is not UTF-8 text: a CA bundle is one or more certificates in PEM")
	}
	if _, err := cert.ParseCertsPEM(bundle); err != nil {
		return errors.New("contains no PEM certificate, or one that cannot be parsed")
	}
	return nil
}
