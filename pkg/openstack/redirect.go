package openstack

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// errRedirected means that a response redirects a request with a token or password elsewhere.
var errRedirected = errors.New("redirected")

// lostError means that a redirect changes the method of a request. net/http would send a GET
// without the body: for a login, Keystone would answer it as if the password was wrong.
type lostError struct{ from, to *url.URL }

func (lostError) Error() string { return "the redirect changes the method" }

// checkRedirect allows redirects that keep the method, within a server, and from http to https on
// the same host. net/http would send the token, and after status 307 or 308 the password too, to
// any host.
func checkRedirect(to *http.Request, via []*http.Request) error {
	from := via[0]
	upgraded := from.URL.Scheme == "http" && to.URL.Scheme == "https" && sameHost(to.URL, from.URL)
	switch {
	case to.Method != from.Method:
		return lostError{from.URL, to.URL}
	case len(via) > maxRedirects, to.URL.User != nil, !sameServer(to.URL, from.URL) && !upgraded:
		return errRedirected
	}
	return nil
}

func sameHost(a, b *url.URL) bool { return strings.EqualFold(a.Hostname(), b.Hostname()) }

func sameServer(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && sameHost(a, b) && portOf(a) == portOf(b)
}

// portOf returns the port of a URL, which may be the default one of the scheme.
func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// tokensPath is the end of the URL of a login, which is not part of auth_url.
const tokensPath = "/auth/tokens"

// movedTo returns the auth_url that a redirect of a login leads to. It is "" if the redirect does
// not lead to an identity service at another URL, but to a login page or to the same URL again.
func (e lostError) movedTo() string {
	path := strings.TrimSuffix(strings.TrimSuffix(e.to.EscapedPath(), "/"), tokensPath)
	to := e.to.Scheme + "://" + e.to.Host + path
	again := sameServer(e.to, e.from) && path+tokensPath == e.from.EscapedPath()
	if !strings.HasSuffix(path, identityVersion) || again || len(to) > maxShownURL ||
		!validURL.MatchString(to) {
		return ""
	}
	return to
}

// steadyPath matches paths without IDs: another ID in each answer would change the message.
var steadyPath = regexp.MustCompile(`^(?:/(?:[A-Za-z_.-]{1,32}|v\d(?:\.\d)?))*/?$`)

// target returns the target of the redirect for messages, "" if it is not printable.
func (e lostError) target() string {
	shown := *e.to
	if !steadyPath.MatchString(shown.EscapedPath()) {
		shown.Path, shown.RawPath = "", ""
	}
	text := redactedURL(shown.String())
	if len(text) > maxShownURL || !validURL.MatchString(text) {
		return ""
	}
	return text
}

// describe describes a redirect that does not lead to an identity service.
func (e lostError) describe() string {
	target := cmp.Or(e.target(), "another URL")
	if sameServer(e.to, e.from) && e.to.EscapedPath() == e.from.EscapedPath() {
		target = "the same URL"
	}
	return fmt.Sprintf("it redirects the request to %s, where its content would be lost. "+
		"Check auth_url, proxy and load balancer", target)
}

// moved returns the error of a login that is redirected to an identity service.
func (e lostError) moved(authURL string) *Error {
	advice := "If the identity service of your cloud is there, write"
	switch {
	case !sameHost(e.to, e.from):
	case e.to.Scheme == "https" && e.from.Scheme == "http":
		advice = "Use https: write"
	default:
		advice = "Write"
	}
	return errorf(InvalidCredentials, "auth_url %s redirects to %s. %s that URL as auth_url into "+
		"clouds.yaml of the credentials Secret; the operator detects the change automatically",
		redactedURL(authURL), e.movedTo(), advice)
}
