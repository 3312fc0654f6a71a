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
	last := chain[len(chain)-1]
	const put, into = "Put %s into key cacert of ", ""
	issuer := named(last.RawIssuer, last.Issuer.String())
	sameName := slices.ContainsFunc(given, func(c *x509.Certificate) bool {
		return bytes.Equal(c.RawSubject, last.RawIssuer)
	})
	has := "no CA is given"
	if len(given) > 0 {
		has = "the CA that is given is " + named(given[0].RawSubject, given[0].Subject.String())
	}
	advice := fmt.Sprintf(put, "the cloud's CA") + TheSecret + OrBundle + into
	switch selfSigned := bytes.Equal(last.RawIssuer, last.RawSubject); {
	case sameName:
		return fmt.Sprintf("%s has the name of a CA that is given, but another key. %s%s", issuer,
			fmt.Sprintf(put, "the present CA of this name"), TheSecret)
	case selfSigned && len(chain) == 1:
		return fmt.Sprintf("it is self-signed by %s, and %s. %s", issuer, has, strings.Replace(advice,
			"the cloud's CA", "this certificate", 1))
	}
	return fmt.Sprintf("%s, and %s. %s. If a proxy that inspects TLS has this name, put its CA there",
		issuer, has, advice)
}

// describeInvalid describes a certificate that is not valid now, or not for this use.
func describeInvalid(
	invalid x509.CertificateInvalidError, leaf *x509.Certificate, given []*x509.Certificate,
) string {
	c, who := invalid.Cert, "it"
	isGiven := slices.ContainsFunc(given, c.Equal)
	advice := "Ask the cloud's administrator for a new one"
	if !c.Equal(leaf) {
		who = "that of its CA " + named(c.RawSubject, c.Subject.String())
	}
	if isGiven {
		advice = "Put the present CA of the cloud into key cacert of " + TheSecret
	}
	const format, clock = "2006-01-02 15:04 MST", ". If it should be valid, correct the clock of the node"
	switch invalid.Reason {
	case x509.Expired:
		if time.Now().Before(c.NotBefore) {
			return fmt.Sprintf("%s is not yet valid, but from %s on. %s%s", who,
				c.NotBefore.UTC().Format(format), advice, clock)
		}
		return fmt.Sprintf("%s has expired at %s. %s%s", who, c.NotAfter.UTC().Format(format), advice,
			clock)
	case x509.IncompatibleUsage:
		return who + " is not for servers. " + advice
	case x509.NotAuthorizedToSign:
		return named(c.RawSubject, c.Subject.String()) + " has signed it and is no CA. Put the CA of the " +
			"cloud into key cacert of " + TheSecret
	case x509.CANotAuthorizedForThisName:
		return who + " permits no host of this name. " + advice
	}
	return cause(invalid) + ". " + advice
}

// named returns the name of a certificate in ASCII, which anybody can choose.
func named(raw []byte, name string) string {
	const longest = 100
	if len(raw) == 0 || name == "" {
		return "an issuer without a name"
	}
	text := strconv.QuoteToASCII(name)
	return text[:min(len(text), longest)]
}

// namesOf returns the first hosts that a certificate is for.
func namesOf(c *x509.Certificate) string {
	const most = 4
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	text := cause(fmt.Errorf("%s", strings.Join(names[:min(len(names), most)], ", ")))
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// describeNoTLS describes an answer that is not of TLS, "" for another error.
func describeNoTLS(err error) string {
	record, ok := errors.AsType[tls.RecordHeaderError](err)
	what := "with other bytes"
	switch {
	case !ok && !isScheme(err):
		return ""
	case !ok || bytes.HasPrefix(record.RecordHeader[:], []byte("HTTP")):
		what = "with plain HTTP"
	default:
		what = cmp.Or(protocol(record.RecordHeader[:]), what)
	}
	return "the server does not answer with TLS, but " + what + ". Check the port in auth_url, and that " +
		"auth_url starts with http if the cloud does not serve HTTPS"
}

// protocol returns which protocol an answer begins with, "" for others.
func protocol(start []byte) string {
	for prefix, name := range map[string]string{
		"\x15\x03": "with TLS", "\x16\x03": "with TLS", "SSH-": "with SSH", "220": "as a server of mail or FTP",
		"+OK": "as a server of mail", "RFB ": "with VNC", "AMQP": "with AMQP",
	} {
		if bytes.HasPrefix(start, []byte(prefix)) {
			return name
		}
	}
	return ""
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
		42: "It demands another client certificate; the drivers have none",
		48: "It does not know the CA of a client certificate; the drivers have none",
		49: "It refuses this client. Check its access rules",
		70: "It offers only versions before TLS 1.2: ask the cloud's administrator to enable TLS 1.2",
		71: "It accepts none of the ciphers that the drivers offer",
		80: "It has an internal error: ask the cloud's administrator",
		112: "It knows no host of this name: write a name into auth_url that the load balancer serves, " +
			"not an IP address or an alias",
		116: "It demands a client certificate, and the drivers have none: use an endpoint without",
	}[code]
	return fmt.Sprintf("the server ends the TLS connection: %s. %s", cause(alert.Err), cmp.Or(advice,
		"Check that it accepts TLS 1.2 or later without a client certificate, and that auth_url "+
			"contains its name"))
}

func isScheme(err error) bool { return errors.Is(err, http.ErrSchemeMismatch) }
