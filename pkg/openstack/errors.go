package openstack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// Reason classifies an Error. Its values are reasons of conditions.
type Reason string

const (
	// InvalidCredentials: clouds.yaml or a CA cannot be used and must be changed. Nothing was sent,
	// unless the login has no project.
	InvalidCredentials Reason = "InvalidCredentials"
	// CloudUnreachable: no usable response. The cause is the network, TLS, a timeout, HTTP 5xx, or a
	// server that is not OpenStack.
	CloudUnreachable Reason = "CloudUnreachable"
	// AuthenticationFailed: Keystone refused the credentials.
	AuthenticationFailed Reason = "AuthenticationFailed"
	// NotOffered: the cloud responded, and it does not offer the service to this project.
	NotOffered Reason = "NotOffered"
	// NotFound: the share or access rule of a request does not exist.
	NotFound Reason = "NotFound"
	// Conflict: the service is busy with the object of a request. A retry may succeed.
	Conflict Reason = "Conflict"
	// Refused: the service refused the content of a request. Manila also answers so while a share is
	// in a state that excludes it, and says which request it refuses.
	Refused Reason = "Refused"
	// Forbidden: the service does not permit a request about this object.
	Forbidden Reason = "Forbidden"
)

// Error is the error of a failed request.
type Error struct {
	Reason Reason
	// Message states what failed, where, and what to do. It is the same text for the same failure.
	Message string
}

func (e *Error) Error() string { return e.Message }

// ReasonOf returns the reason of err, and CloudUnreachable if err is not an *Error.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return CloudUnreachable
}

// proxyConnect is the Op of a net.OpError for a failed connection to a proxy.
const proxyConnect = "proxyconnect"

// ErrNotOpenStack means that a response lacks a field that every response of the API contains.
const ErrNotOpenStack = DescribedError("its response is not from an OpenStack API. " +
	"Check auth_url, proxy and load balancer")

// lacks returns the error about a response without a field that every response of the API contains.
func lacks(what string) DescribedError {
	return describef("its response is not from an OpenStack API: it contains no %s. Check auth_url, "+
		"proxy and load balancer", what)
}

func errorf(reason Reason, format string, args ...any) *Error {
	return &Error{reason, fmt.Sprintf(format, args...)}
}

func invalid(problem string) *Error {
	return errorf(InvalidCredentials, "%s. Fix it; the operator detects the change automatically",
		problem)
}

// identityService is the name of the service at auth_url. Its URL is in clouds.yaml, the URLs of
// the other services are in the catalog.
const identityService = "identity service"

func loginError(a Access, err error) *Error {
	authURL := a.AuthURL
	const login = "user, password or application credential, project and domain in " + TheSecret
	status, foreign, guess := statusOf(err), !isOfKeystone(err), "Check that "
	if status == http.StatusBadRequest && strings.HasPrefix(authURL, "http:") {
		guess += "auth_url starts with https if the cloud serves HTTPS, that "
	}
	guess += "auth_url is the URL of Keystone, not of the dashboard, and check proxy and load balancer"
	if refused(err) {
		guess += ", then " + login
	}
	with, advice := content(err, guess)
	switch {
	case refused(err) && foreign: // or something replaces the errors of Keystone
		return errorf(AuthenticationFailed, "OpenStack's identity service at %s refused the login "+
			"(HTTP %d%s), but the answer is not of Keystone. %s", redactedURL(authURL), status, with, advice)
	case refused(err):
		why, advice := a.refusal(err)
		return errorf(AuthenticationFailed, "OpenStack's identity service at %s refused the login "+
			"(HTTP %d)%s. %s", redactedURL(authURL), status, why, cmp.Or(advice, "Check "+login))
	case isOfProxy(status, authURL):
	// Front ends limit requests and answer 5xx in place of Keystone.
	case status != 0 && status < http.StatusInternalServerError && foreign && !limitsRequests(err):
		err = describef("it returned HTTP %d%s, which is no answer of Keystone to a login. %s", status,
			with, advice)
	}
	return unreachable(identityService, authURL, err)
}

// isOfProxy returns whether a status is that of the proxy on the way to a URL. With https, the
// proxy only connects, and the status is that of a server.
func isOfProxy(status int, to string) bool {
	return status == http.StatusProxyAuthRequired && strings.HasPrefix(to, "http:")
}

// refused returns whether Keystone refused a login. It answers 404 for an application credential
// that does not exist. If auth_url is wrong, the 404 is not of Keystone.
func refused(err error) bool {
	switch statusOf(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusNotFound:
		return isOfKeystone(err)
	}
	return false
}

// refusal returns why Keystone refuses the login, as the end of a clause, and what to do; or "".
func (a Access) refusal(err error) (why, advice string) {
	code, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	why, advice = known("login", start(code.Body))
	if why == "" && a.UsesApplicationCredential() {
		why, advice = known("credential", start(code.Body))
	}
	if why != "" {
		why = ": " + why
	}
	return why, advice
}

// isOfKeystone returns whether a failed call has the body of errors of Keystone, or of its demand
// for a second factor.
func isOfKeystone(err error) bool {
	response, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	var answer struct {
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
		Receipt json.RawMessage `json:"receipt"`
	}
	return json.Unmarshal(response.Body, &answer) == nil &&
		(answer.Error.Code == response.Actual || answer.Receipt != nil)
}

// catalogError classifies the error of reading the catalog. HTTP 403 and 404 do not mean that a
// service is not offered.
func catalogError(a Access, err error) *Error {
	authURL := a.AuthURL
	if status := statusOf(err); status == http.StatusForbidden || status == http.StatusNotFound {
		return unreachable(identityService, authURL, err)
	}
	return callError(identityService, authURL, a, err)
}

// callError classifies the error of an API call of a session with this access.
func callError(service, endpoint string, a Access, err error) *Error {
	if again, ok := errors.AsType[*gophercloud.ErrUnableToReauthenticate](err); ok {
		if !errors.Is(again.ErrReauth, errNotRenewed) {
			return loginError(a, again.ErrReauth)
		}
		err = again.ErrOriginal
	}
	// gophercloud hides the error of a call that failed again after a new login from errors.AsType.
	if after, ok := errors.AsType[*gophercloud.ErrErrorAfterReauthentication](err); ok {
		err = after.ErrOriginal
	}
	status := statusOf(err)
	says := said(service, err)
	switch {
	case status == http.StatusUnauthorized:
		return tokenError(service, endpoint, a, err)
	case a.elsewhere(endpoint) && slices.Contains([]int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound,
	}, status):
		reason := NotOffered
		if status == http.StatusBadRequest { // a proxy may have answered
			reason = CloudUnreachable
		}
		return errorf(reason, "OpenStack's %s returned HTTP %d at %s. This URL of the catalog contains "+
			"another project than that of the login, %s. Ask the administrator of the cloud to end it with "+
			"%%(project_id)s in the catalog, or correct the project in %s%s", service, status,
			redactedURL(endpoint), a.project, TheSecret, says)
	case status == http.StatusForbidden:
		return errorf(NotOffered, "OpenStack's %s at %s is not open to this project, or a role of "+
			"its user or application credential is missing (HTTP 403). If the cluster needs the service, "+
			"ask the administrator of the cloud for access%s",
			service, redactedURL(endpoint), says)
	case status == http.StatusNotFound:
		return errorf(NotOffered, "OpenStack's catalog lists a %s at %s, but nothing is served there "+
			"(HTTP 404). If the cluster needs the service, ask the administrator of the cloud to fix it%s",
			service, redactedURL(endpoint), says)
	default:
		return unreachable(service, endpoint, err)
	}
}

func unreachable(service, endpoint string, err error) *Error {
	if status := statusOf(err); isOfProxy(status, endpoint) {
		err = proxyError(proxyStatusError(status))
	}
	cause := describe(err)
	if service != identityService { // its URL is not in clouds.yaml
		origin := "the URL of the " + service + " in OpenStack's catalog"
		cause = strings.ReplaceAll(cause, "auth_url", origin) + said(service, err)
	}
	return errorf(CloudUnreachable, "OpenStack's %s at %s cannot be used: %s",
		service, redactedURL(endpoint), cause)
}

const maxShownURL = 200

// redactedURL returns a URL for messages, without user and fragment, and a mark in place of a
// query. The URL is from clouds.yaml or a validated URL of the catalog.
func redactedURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the URL in clouds.yaml"
	}
	shown := u.Scheme + "://" + u.Host + strings.TrimSuffix(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		shown += "?..."
	}
	if len(shown) > maxShownURL {
		shown = shown[:maxShownURL] + "..."
	}
	return shown
}

// statusOf returns the HTTP status of a failed call, 0 if there was no response.
func statusOf(err error) int {
	code, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	return code.Actual
}

// limitsRequests returns whether a call failed because of a limit on the number of requests. Nova
// and Cinder answer 413 in place of 429, and call it a fault of kind overLimit or overLimitFault.
func limitsRequests(err error) bool {
	code, _ := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if code.Actual != http.StatusRequestEntityTooLarge {
		return code.Actual == http.StatusTooManyRequests
	}
	var faults map[string]json.RawMessage
	_ = json.Unmarshal(code.Body, &faults) // another text names no fault
	return code.ResponseHeader.Get("Retry-After") != "" || faults["overLimit"] != nil ||
		faults["overLimitFault"] != nil
}
