package openstack

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/gophercloud/gophercloud/v2"
)

// describe returns a description of an error that is the same text for each attempt.
func describe(err error) string {
	if status := statusOf(err); status != 0 {
		return describeStatus(err, status)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == proxyConnect {
		return describeProxy(op.Err)
	}
	if other := describeJSON(err); other != nil {
		err = other
	}
	if own, ok := errors.AsType[DescribedError](err); ok {
		return string(own)
	}
	text := cmp.Or(describeCertificate(err), describeNoTLS(err), describeNetwork(err).String(),
		describeHandshake(err))
	answer, answered := errors.AsType[*answerError](err)
	switch {
	case text == "" && answered:
		text = "its answer is not valid HTTP" + answer.shown() + ". Check the port in auth_url, and " +
			"that auth_url starts with https if the cloud serves HTTPS, proxy and load balancer"
	case text == "":
		text = fmt.Sprintf("unexpected failure (%T)", err)
	}
	if isType[*proxiedError](err) {
		text += ". The request goes through the proxy in " + TheProxy
	}
	return text
}

// describeProxy describes why a connection to the proxy, or the one that it makes, fails. It does
// not name the proxy: on HyperShift the administrators of guest clusters read the text.
func describeProxy(err error) string {
	status, _ := errors.AsType[proxyStatusError](err)
	cause, advice := describeNetwork(err).cause, "Check "+TheProxy+" and the route to the proxy"
	switch {
	case status == http.StatusProxyAuthRequired:
		cause = "it demands another login (HTTP 407)"
		advice = "Correct user and password in " + TheProxy +
			", in which %40 stands for @, and %3A for a colon"
	case status >= http.StatusInternalServerError:
		cause = fmt.Sprintf("it does not reach the server (HTTP %d)", status)
		advice = "Check the route from the proxy to the cloud. If the proxy is not needed there, add " +
			"the host of the cloud to noProxy in " + TheProxy
	case status != 0:
		cause = fmt.Sprintf("it refuses the connection (HTTP %d)", status)
		advice = "Let the proxy connect to host and port of the cloud, or add the host to noProxy in " +
			TheProxy
	case isType[*net.DNSError](err):
		cause = "its host name cannot be resolved"
	case isType[*net.AddrError](err):
		cause = "its port does not exist"
	case describeCertificate(err)+describeNoTLS(err)+describeHandshake(err) != "":
		cause = "its certificate or TLS version is not accepted"
	}
	return "the proxy cannot be used: " + cmp.Or(cause, "its answer is not valid HTTP") + ". " + advice
}

// DescribedError is an error whose text is the same for each attempt.
type DescribedError string

func (d DescribedError) Error() string { return string(d) }

func describef(format string, args ...any) DescribedError {
	return DescribedError(fmt.Sprintf(format, args...))
}

func describeStatus(err error, status int) string {
	switch {
	case limitsRequests(err):
		return fmt.Sprintf("it returned HTTP %d: it limits the number of requests. The operator retries "+
			"automatically; if this persists, ask the cloud's administrator for a higher limit", status)
	case status >= http.StatusInternalServerError:
		with, advice := content(err, "The cloud may be in maintenance; "+
			"the operator retries automatically")
		return fmt.Sprintf("it returned HTTP %d%s. %s", status, with, advice)
	}
	with, advice := content(err, "Check auth_url, proxy and load balancer")
	return fmt.Sprintf("it returned HTTP %d%s, which the operator does not expect. %s", status, with,
		advice)
}

// isType reports whether an error is, or wraps, one of a type.
func isType[T error](err error) bool {
	_, found := errors.AsType[T](err)
	return found
}

// describeHandshake describes what ends a connection that crypto/tls has no exported type for: an
// alert, which it hides in a net.OpError, during the handshake or after it, or another failure of
// the handshake.
func describeHandshake(err error) string {
	op, _ := errors.AsType[*net.OpError](err)
	failed, _ := errors.AsType[*handshakeError](err)
	switch {
	case op != nil && op.Op == "remote error":
		return describeAlert(op)
	case op != nil && op.Op == "local error":
		return fmt.Sprintf("the TLS connection fails: %s. Check proxy, load balancer and firewalls in "+
			"front of the cloud", cause(op.Err))
	case failed != nil:
		return fmt.Sprintf("the TLS handshake fails: %s. Check the cloud's certificate, and that it "+
			"serves TLS 1.2 or later", cause(failed.error))
	}
	return ""
}

// cause returns an error of crypto/tls in ASCII. It may quote a certificate.
func cause(err error) string {
	text := strconv.QuoteToASCII(strings.TrimPrefix(err.Error(), "tls: "))
	return text[:min(len(text), maxShownURL)]
}

// handshakeError means that a TLS handshake failed.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// lacksNames returns whether a certificate is refused because it has only a common name.
func lacksNames(err error) bool {
	wrong, ok := errors.AsType[x509.HostnameError](err)
	if !ok || wrong.Certificate == nil {
		return false
	}
	c := wrong.Certificate
	return len(c.DNSNames)+len(c.IPAddresses)+len(c.URIs)+len(c.EmailAddresses) == 0
}

// networkFailure is why a server cannot be reached, with what to do; empty for another error.
type networkFailure struct{ cause, advice string }

func (f networkFailure) String() string {
	if f.cause == "" {
		return ""
	}
	return f.cause + ". " + f.advice
}

func describeNetwork(err error) networkFailure {
	dns, unresolved := errors.AsType[*net.DNSError](err)
	network, _ := errors.AsType[net.Error](err)
	answered, _ := errors.AsType[*answerError](err)
	switch {
	case unresolved:
		return networkFailure{
			fmt.Sprintf("the host name %s cannot be resolved", dns.Name),
			"Check auth_url and the cluster's DNS",
		}
	case errors.Is(err, context.Canceled):
		return networkFailure{"request cancelled", "The operator is shutting down"}
	case errors.Is(err, context.DeadlineExceeded), network != nil && network.Timeout():
		return networkFailure{
			"no response in time", "Check the route and firewalls between cluster and cloud",
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return networkFailure{
			"the connection is refused", "Check that the service runs and auth_url is right",
		}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return networkFailure{
			"there is no route", "Check the route between cluster and cloud, and " + TheProxy,
		}
	// Depending on the timing, a server that drops connections causes any of these errors.
	case closes(err) && answered != nil && answered.kind != "":
		return networkFailure{
			"the server closes the connection before its answer is complete (" + answered.kind + ")",
			"Check load balancer, proxy and firewalls in front of the cloud",
		}
	case closes(err):
		return networkFailure{
			"the server closes the connection without an answer",
			"Check port and scheme (http or https) of auth_url, and load balancer, proxy and firewalls in " +
				"front of the cloud",
		}
	case isType[*net.AddrError](err):
		return networkFailure{
			"it has an address or a port that does not exist", "Check auth_url",
		}
	}
	return networkFailure{}
}

// closes returns whether a server ended the connection.
func closes(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, http.ErrServerClosed)
}

// describeJSON describes an answer of another kind than expected, nil for another error.
func describeJSON(err error) error {
	syntax, malformed := errors.AsType[*json.SyntaxError](err)
	mistyped, other := errors.AsType[*json.UnmarshalTypeError](err)
	const notAPI, advice = "its response is not from an OpenStack API: ", ". Check auth_url, proxy " +
		"and load balancer"
	switch {
	case malformed:
		return describef("%sits JSON has a mistake at byte %d%s", notAPI, syntax.Offset, advice)
	case other:
		kind, _, _ := strings.Cut(mistyped.Value, " ") // a number follows
		return describef("%s%s is of the kind %s%s", notAPI, cmp.Or(mistyped.Field, "its content"), kind,
			advice)
	case isType[gophercloud.ErrUnexpectedType](err):
		return ErrNotOpenStack
	}
	return nil
}

// mediaType matches the values of headers that messages contain.
var mediaType = regexp.MustCompile(`^[a-z0-9.+/-]{1,60}$`)
