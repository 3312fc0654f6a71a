package openstack

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// errRedirected means that a response redirects a request with a token or password elsewhere.
const errRedirected = DescribedError("it redirects the request to another server, which must not " +
	"get the token. Check auth_url and the cloud's catalog")

// errRedirectedOften means that redirects do not end.
const errRedirectedOften = DescribedError("it redirects the request again and again. " +
	"Check auth_url, proxy and load balancer")

// errNoLocation means that a response redirects the request to a text that is no URL.
const errNoLocation = DescribedError("it redirects the request to an address that is not a URL. " +
	"Check auth_url, proxy and load balancer")

// checkRedirect allows redirects that keep the method, within a server, and from http to https on
// the same host. net/http would send the token, and after status 307 or 308 the password too, to
// any host.
func checkRedirect(to *http.Request, via []*http.Request) error {
	from := via[0]
	upgraded := from.URL.Scheme == "http" && to.URL.Scheme == "https" && sameHost(to.URL, from.URL)
	switch {
	case to.Method != from.Method:
		return lost(*to.URL)
	case len(via) > maxRedirects:
		return errRedirectedOften
	case to.URL.User != nil, !sameServer(to.URL, from.URL) && !upgraded:
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

// steadyPath matches paths without IDs: another ID in each answer would change the message.
var steadyPath = regexp.MustCompile(`^(?:/(?:[A-Za-z_.-]{1,32}|v\d(?:\.\d)?))*/?$`)

// lost returns the error about a redirect that changes the method of a request. net/http would send
// a GET without the body: for a login, Keystone would answer it as if the password was wrong.
func lost(to url.URL) error {
	to.RawQuery = ""
	if !steadyPath.MatchString(to.EscapedPath()) {
		to.Path, to.RawPath = "", ""
	}
	// The end of the URL of a login is not part of auth_url.
	target := strings.TrimSuffix(redactedURL(to.String()), "/auth/tokens")
	if len(target) > maxShownURL || !validURL.MatchString(target) {
		target = "another URL"
	}
	return describef("it redirects the request to %s, where its content would be lost. If the "+
		"service of your cloud is there, write that URL as auth_url. If not, check proxy and load "+
		"balancer", target)
}
