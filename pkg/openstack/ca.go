package openstack

import (
	"errors"
	"unicode/utf8"

	"k8s.io/client-go/util/cert"
)

// CheckCA returns an error unless a bundle is one that operator and CSI drivers can use. The drivers do not start with a bundle of
// which a single certificate cannot be parsed. The error reads on from the name of the place that the bundle is from.
func CheckCA(bundle []byte) error {
	if !utf8.Valid(bundle) {
		return errors.New("is not UTF-8 text: a CA bundle is one or more certificates in PEM")
	}
	if _, err := cert.ParseCertsPEM(bundle); err != nil {
		return errors.New("holds no PEM certificate, or one that cannot be parsed")
	}
	return nil
}
