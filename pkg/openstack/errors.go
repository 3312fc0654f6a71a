package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/gophercloud/gophercloud/v2"
)

// Reason classifies an Error. Its values are reasons of conditions.
type Reason string

const (
	// InvalidCredentials: clouds.yaml or a CA file cannot be read or understood; nothing was sent.
	InvalidCredentials Reason = "InvalidCredentials"
	// CloudUnreachable: no usable answer: network, TLS, time-out, 5xx, something that is not OpenStack.
	CloudUnreachable Reason = "CloudUnreachable"
	// AuthenticationFailed: Keystone refused the credentials.
	AuthenticationFailed Reason = "AuthenticationFailed"
	// NotOffered: the cloud answered, and it does not offer the service to this project.
	NotOffered Reason = "NotOffered"
)

// Error is a failed look at the cloud.
type Error struct {
	Reason Reason
	// Message says what failed, where, and what to do. It is the same text for the same failure.
	Message string
}

func (e *Error) Error() string { return e.Message }

// ReasonOf returns the reason of err; an error that is none of this package's counts as CloudUnreachable.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return CloudUnreachable
}

// proxyConnect is how net/http names the way to a proxy in a net.OpError.
const proxyConnect = "proxyconnect"

// errForeign is an answer without what every answer of the API has.
var errForeign = errors.New("not an answer of OpenStack")

func invalid(fault string) *Error {
	return &Error{InvalidCredentials, fault + ". Correct it; the operator detects the change automatically"}
}

func missing(path string) *Error {
	return &Error{InvalidCredentials, fmt.Sprintf("%s does not exist. Create the credentials Secret with key %s, or mount it; "+
		"the operator detects the change automatically", path, CloudsKey)}
}

// identityService is the service that auth_url of clouds.yaml leads to. The addresses of the others are in the catalog.
const identityService = "identity service"

// loginError classifies a failed login at the identity service.
func loginError(authURL string, err error) *Error {
	switch status := statusOf(err); {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return &Error{AuthenticationFailed, fmt.Sprintf("OpenStack's identity service at %s refuses the login (HTTP %d). "+
			"Check user, password or application credential, project and domain in the credentials Secret", place(authURL), status)}
	default:
		return unreachable(identityService, authURL, err)
	}
}

// catalogError classifies a failed look at the catalog. An identity service that does not show it has not said that a service
// is not offered.
func catalogError(authURL string, err error) *Error {
	if status := statusOf(err); status == http.StatusForbidden || status == http.StatusNotFound {
		return unreachable(identityService, authURL, err)
	}
	return callError(identityService, authURL, authURL, err)
}

// callError classifies a failed call of an API other than the identity service, which authURL leads to.
func callError(service, endpoint, authURL string, err error) *Error {
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) {
		return loginError(authURL, again.ErrReauth)
	}
	err = original(err)
	switch statusOf(err) {
	case http.StatusUnauthorized:
		return &Error{AuthenticationFailed, fmt.Sprintf("OpenStack's %s at %s refuses the token (HTTP 401). "+
			"Check the project and its roles in the credentials Secret", service, place(endpoint))}
	case http.StatusForbidden:
		return &Error{NotOffered, fmt.Sprintf("OpenStack's %s at %s is not open to this project (HTTP 403). "+
			"Ask the cloud's administrator for access if it is wanted", service, place(endpoint))}
	case http.StatusNotFound:
		return &Error{NotOffered, fmt.Sprintf("OpenStack's catalog lists a %s at %s, but nothing is served there (HTTP 404). "+
			"Ask the cloud's administrator to fix it if it is wanted", service, place(endpoint))}
	default:
		return unreachable(service, endpoint, err)
	}
}

func unreachable(service, endpoint string, err error) *Error {
	words := describe(err)
	if service != identityService { // its address is not in clouds.yaml
		words = strings.ReplaceAll(words, "auth_url", "the URL of the "+service+" in OpenStack's catalog")
	}
	return &Error{CloudUnreachable, fmt.Sprintf("OpenStack's %s at %s cannot be used: %s", service, place(endpoint), words)}
}

// maxPlace is how much of an address a message shows.
const maxPlace = 200

// place is a URL without what does not belong into a message. The URL is of clouds.yaml, or of the catalog and checked.
func place(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the URL in clouds.yaml"
	}
	shown := u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/")
	if len(shown) > maxPlace {
		shown = shown[:maxPlace] + "..."
	}
	return shown
}

// loginFailed tells whether a call failed for the new login that it took.
func loginFailed(err error) bool {
	var again *gophercloud.ErrUnableToReauthenticate
	return errors.As(err, &again)
}

// original is the failure behind gophercloud's remark that there was a new login before it; the remark hides it from errors.As.
func original(err error) error {
	var after *gophercloud.ErrErrorAfterReauthentication
	if errors.As(err, &after) {
		return after.ErrOriginal
	}
	return err
}

// statusOf digs out the HTTP status that ended a call, 0 if none did.
func statusOf(err error) int {
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) {
		return code.Actual
	}
	return 0
}

// describe turns an error of the transport into words that do not change from one attempt to the next.
func describe(err error) string {
	if status := statusOf(err); status != 0 {
		return fmt.Sprintf("it answers HTTP %d. The cloud may be in maintenance; the operator retries automatically", status)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == proxyConnect {
		return "the proxy cannot be used. Check Proxy/cluster (on HyperShift the management cluster's) and the route to the proxy"
	}
	for _, d := range []func(error) string{describeTLS, describeNetwork, describeAnswer} {
		if text := d(err); text != "" {
			return text
		}
	}
	return fmt.Sprintf("unexpected failure (%T)", err)
}

func describeTLS(err error) string {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		cert      x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
	)
	switch {
	case errors.As(err, &authority):
		return "its certificate is signed by an unknown authority. Put the cloud's CA into key cacert of the credentials Secret, " +
			"or into the CAs that the cluster trusts (trustedCA of Proxy/cluster)"
	case errors.As(err, &host):
		return "its certificate is not valid for this host name. Check auth_url and the cloud's certificate"
	case errors.As(err, &cert):
		return "its certificate is not valid (expired, not yet valid, or not for this use). Check the cloud's certificate and the clock"
	case errors.As(err, &verify):
		return "its certificate cannot be verified. Check the cloud's certificate"
	case errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return "the TLS handshake fails. Check that auth_url says https where the cloud speaks it"
	}
	return ""
}

func describeNetwork(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("the host name %s cannot be resolved. Check auth_url and the cluster's DNS", dns.Name)
	case errors.Is(err, context.Canceled):
		return "the question was broken off because the operator stops"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time. Check the route and firewalls between cluster and cloud"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused. Check that the service runs and auth_url is right"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route. Check the route between cluster and cloud, and Proxy/cluster (on HyperShift the management cluster's)"
	// A peer that drops connections shows as any of these, depending on who was first.
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, http.ErrServerClosed):
		return "the other side closes the connection. Check load balancer, proxy and firewalls before the cloud"
	}
	return ""
}

func describeAnswer(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var shape gophercloud.ErrUnexpectedType
	switch {
	case errors.Is(err, errTooLarge):
		return fmt.Sprintf("its answer is larger than %d MiB or has more than %d values. Check auth_url, proxy and load balancer", maxBody>>20, maxValues)
	case errors.Is(err, errTooMany):
		return fmt.Sprintf("it lists more than %d items, which is more than the operator takes. Ask the cloud's administrator to show fewer to this project", maxItems)
	case errors.Is(err, errRedirected):
		return "it redirects the request to another server, which must not get the token. Check auth_url and the cloud's catalog"
	}
	if errors.Is(err, errForeign) || errors.As(err, &syntax) || errors.As(err, &kind) || errors.As(err, &shape) {
		return "its answer is not that of an OpenStack API. Check auth_url, proxy and load balancer"
	}
	return ""
}
