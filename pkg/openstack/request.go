package openstack

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Request is an HTTP request to OpenStack that has ended.
type Request struct {
	// Service is Keystone, Manila, Cinder or Nova.
	Service string
	// Code is the HTTP status, "other" for a number that is not one, "error" without an answer.
	Code string
	// Duration is the time until the header of the answer arrived.
	Duration time.Duration
}

// observe passes a request to the renewal and to the Source. The answer is nil if there is none. An
// optional request tells nothing about a token.
func (s *session) observe(to *url.URL, answer *http.Response, took time.Duration) {
	last := s.renewal.Load()
	if last != nil && answer != nil && last.token != "" &&
		answer.Request.Context().Value(optionalKey{}) == nil &&
		last.token == answer.Request.Header.Get("X-Auth-Token") {
		useless := answer.StatusCode == http.StatusUnauthorized
		s.renewal.CompareAndSwap(last, &renewal{at: last.at, useless: useless})
	}
	if s.access.Observe != nil {
		s.access.Observe(Request{Service: s.serviceAt(to), Code: codeOf(answer), Duration: took})
	}
}

// serviceAt returns the label of the service at a URL. The scheme does not matter, because a server
// may redirect from http to https.
func (s *session) serviceAt(to *url.URL) string {
	identity, err := url.Parse(s.access.AuthURL)
	label := s.service.Load()
	if err != nil || label == nil || strings.HasPrefix(to.Host+to.Path, identity.Host+identity.Path) {
		return "Keystone"
	}
	return *label
}

// codeOf returns one of a small number of codes, whatever the cloud answers.
func codeOf(answer *http.Response) string {
	switch {
	case answer == nil:
		return "error"
	case http.StatusText(answer.StatusCode) == "":
		return "other"
	}
	return strconv.Itoa(answer.StatusCode)
}
