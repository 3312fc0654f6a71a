package openstack

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// certificateError is an error about the certificate of a server, with the CA of the login.
type certificateError struct {
	error
	ca string
}

func (e *certificateError) Unwrap() error { return e.error }

// describeCertificate describes why the certificate of a server is not accepted, "" for another
// error. It names what the certificates name, and no time of the attempt.
func describeCertificate(err error) string {
	failed, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok || len(failed.UnverifiedCertificates) == 0 {
		return ""
	}
	var given []*x509.Certificate
	if own, ok := errors.AsType[*certificateError](err); ok {
		given, _ = cert.ParseCertsPEM([]byte(own.ca)) // none, or checked by pkg/clouds
	}
	host, wrongHost := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case isType[x509.UnknownAuthorityError](err):
		return "its certificate is signed by an unknown authority: " +
			describeAuthority(failed.UnverifiedCertificates, given)
	case lacksNames(err):
		return "its certificate has no Subject Alternative Names, and the common name does not count. " +
			"Replace the cloud's certificate by one with the host of auth_url among its Subject " +
			"Alternative Names"
	case wrongHost:
		return fmt.Sprintf("its certificate is not valid for this host name: it is for %s. Write one of "+
			"these names into auth_url, or let the cloud's administrator issue a certificate with this one",
			namesOf(host.Certificate))
	case isInvalid:
		return "its certificate is not valid: " +
			describeInvalid(invalid, failed.UnverifiedCertificates[0], given)
	}
	return fmt.Sprintf("its certificate cannot be verified: %s. Check the cloud's certificate",
		cause(failed.Err))
}

// describeAuthority describes certificates that no trusted CA has issued.
func describeAuthority(chain, given []*x509.Certificate) string {
	const replace = "Replace the content of key cacert of " + TheSecret + " by "
	last, has, place := chain[len(chain)-1], "no CA is given", ""
	issuer, what := cut(strconv.QuoteToASCII(last.Issuer.String())), "the cloud's CA"
	by := issuer
	if len(chain) == 1 && bytes.Equal(last.RawIssuer, last.RawSubject) {
		by, what = "it is self-signed by "+issuer, "this certificate"
	}
	for _, c := range given {
		switch same := bytes.Equal(c.RawSubject, last.RawIssuer); {
		case same && !c.IsCA:
			return "the certificate that is given for " + issuer + " is no CA (it lacks CA:TRUE). " +
				replace + "one that is a CA"
		case same:
			return issuer + " has the name of a CA that is given, but another key. " + replace +
				"the present CA of this name"
		}
		has, place = "the CA that is given is ", replace+what
		if !c.IsCA && !bytes.Equal(c.RawIssuer, c.RawSubject) {
			has = "what is given is no CA but the certificate of a server, "
		}
		has += cut(strconv.QuoteToASCII(c.Subject.String()))
	}
	return fmt.Sprintf("%s, and %s. %s. If a proxy that inspects TLS has this name, put its CA there",
		by, has, cmp.Or(place, "Put "+what+" into key cacert of "+TheSecret+OrBundle))
}

// describeInvalid describes a certificate that is not valid now, or not for this use.
func describeInvalid(
	invalid x509.CertificateInvalidError, leaf *x509.Certificate, given []*x509.Certificate,
) string {
	const format = "2006-01-02 15:04 MST"
	c, who, advice := invalid.Cert, "it", "Ask the cloud's administrator for a new one"
	if !c.Equal(leaf) {
		who = "that of its CA " + cut(strconv.QuoteToASCII(c.Subject.String()))
	}
	if slices.ContainsFunc(given, c.Equal) {
		advice = "Replace the content of key cacert of " + TheSecret + " by the cloud's present CA"
	}
	switch problem := cause(invalid); {
	case invalid.Reason == x509.IncompatibleUsage:
		return who + " is not for servers. " + advice
	case invalid.Reason == x509.NotAuthorizedToSign:
		return who + " is signed by a certificate that is no CA. " + advice
	case invalid.Reason != x509.Expired:
		return problem + ". " + advice
	case time.Now().Before(c.NotBefore):
		who += " is not yet valid, but from " + c.NotBefore.UTC().Format(format) + " on. "
	default:
		who += " has expired at " + c.NotAfter.UTC().Format(format) + ". "
	}
	return who + advice + ". If it should be valid, correct the clock of the node"
}

// cut returns the start of a text from a certificate, which anybody can choose.
func cut(text string) string {
	const longest = 100
	return text[:min(len(text), longest)]
}

// namesOf returns the first hosts that a certificate is for.
func namesOf(c *x509.Certificate) string {
	const most = 4
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	text := cut(strconv.QuoteToASCII(strings.Join(names[:min(len(names), most)], ", ")))
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// describeNoTLS describes an answer that is not of TLS, "" for another error.
func describeNoTLS(err error) string {
	record, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok && !errors.Is(err, http.ErrSchemeMismatch) {
		return ""
	}
	what := "with plain HTTP"
	if ok {
		what = cmp.Or(position.Protocol(record.RecordHeader[:]), "with other bytes")
	}
	return "the server does not answer with TLS, but " + what + ". Check the port in auth_url, and " +
		"that auth_url starts with http if the cloud does not serve HTTPS"
}

// describeAlert describes the alert with which a server ends a TLS connection. crypto/tls has no
// exported type for it.
func describeAlert(alert *net.OpError) string {
	code := uint64(0)
	if value := reflect.ValueOf(alert.Err); value.Kind() == reflect.Uint8 {
		code = value.Uint()
	}
	advice := map[uint64]string{
		40: "It accepts no version or cipher of TLS that the drivers offer, or demands a client " +
			"certificate, which they do not have",
		42:  "It demands another client certificate; the drivers have none",
		48:  "It does not know the CA of a client certificate; the drivers have none",
		49:  "It refuses this client. Check its access rules",
		70:  "It offers only versions before TLS 1.2: ask the cloud's administrator to enable TLS 1.2",
		71:  "It accepts none of the ciphers that the drivers offer",
		80:  "It has an internal error: ask the cloud's administrator",
		112: "It knows no host of this name: write a name into auth_url that the load balancer serves",
		116: "It demands a client certificate, and the drivers have none: use an endpoint without",
	}[code]
	return fmt.Sprintf("the server ends the TLS connection: %s. %s", cause(alert.Err), cmp.Or(advice,
		"Check that it accepts TLS 1.2 or later without a client certificate, and that auth_url "+
			"contains its name"))
}
