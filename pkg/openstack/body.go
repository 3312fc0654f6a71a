package openstack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
)

// limitedBody counts how many bytes and values may still follow, and checks that the answer to a
// request is JSON up to its end.
type limitedBody struct {
	io.ReadCloser
	limit, left size
	response    *http.Response

	// read is the number of bytes, depth that of open brackets outside of texts.
	read, depth     int
	text, backslash bool
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left.bytes -= n
	// Each JSON value except the first of an array or object follows a comma. The count includes
	// characters within strings.
	for _, separator := range []byte("[{,") {
		b.left.values -= bytes.Count(p[:n], []byte{separator})
	}
	if b.left.bytes < 0 || b.left.values < 0 {
		return 0, describef("its response is larger than %d MiB or contains more than %d values. "+
			"Check auth_url, proxy and load balancer", b.limit.bytes>>20, b.limit.values)
	}
	if b.expectsJSON() {
		if fault := b.check(p[:n], err); fault != "" {
			return 0, fault
		}
	}
	if network, _ := errors.AsType[net.Error](err); err != nil && !errors.Is(err, io.EOF) &&
		!errors.Is(err, context.Canceled) && (network == nil || !network.Timeout()) {
		err = &answerError{err, b.kind()}
	}
	return n, err
}

// expectsJSON returns true for answers that gophercloud decodes.
func (b *limitedBody) expectsJSON() bool {
	status := b.response.StatusCode
	get := b.response.Request.Method == http.MethodGet && status < http.StatusBadRequest &&
		status != http.StatusNoContent
	return get || status == http.StatusCreated
}

// check returns what is wrong with the answer: it is empty, no JSON, or ends too early.
func (b *limitedBody) check(content []byte, end error) DescribedError {
	const notAPI = "its response is not from an OpenStack API: %s (%s). %s"
	const guess = "Check auth_url, proxy and load balancer"
	start := bytes.TrimLeft(content, " \t\r\n")
	if b.read == 0 && len(start) > 0 && !strings.ContainsRune(`{["ntf-0123456789`, rune(start[0])) {
		rest, _ := io.ReadAll(io.LimitReader(b.ReadCloser, maxHeader)) // what there is counts
		what, advice := foreign(b.response.Header, slices.Concat(content, rest))
		return describef(notAPI, "its content is "+what, b.kind(), cmp.Or(advice, guess))
	}
	b.read += len(start)
	for _, char := range content {
		switch {
		case b.backslash:
			b.backslash = false
		case b.text && char == '\\':
			b.backslash = true
		case char == '"':
			b.text = !b.text
		case !b.text && (char == '{' || char == '['):
			b.depth++
		case !b.text && (char == '}' || char == ']'):
			b.depth--
		}
	}
	switch {
	case !errors.Is(end, io.EOF):
		return ""
	case b.read == 0:
		return describef(notAPI, "its content is empty", b.kind(), guess)
	case b.depth > 0 || b.text:
		return describef(notAPI, fmt.Sprintf("its JSON ends too early, after %d bytes", b.read),
			b.kind(), guess)
	}
	return ""
}

// kind returns the status, the type and the encoding of the answer.
func (b *limitedBody) kind() string {
	kind := fmt.Sprintf("HTTP %d", b.response.StatusCode)
	media, _, _ := strings.Cut(b.response.Header.Get("Content-Type"), ";")
	if mediaType.MatchString(media) {
		kind += ", " + media
	}
	if coding := b.response.Header.Get("Content-Encoding"); mediaType.MatchString(coding) {
		kind += ", " + coding
	}
	switch {
	case len(b.response.TransferEncoding) > 0:
		kind += ", in chunks"
	case b.response.ContentLength > 0:
		kind += fmt.Sprintf(", %d bytes announced", b.response.ContentLength)
	}
	return kind
}
