package fault

import (
	"slices"
	"strings"
	"syscall"
)

// leaf parses the error at the end of a chain. It returns false if the text is none.
func (p *parser) leaf(text string) bool {
	for _, parse := range []func(string) bool{
		p.answer, p.request, p.network, p.phrase, p.command, p.system, p.object, p.scheduling,
	} {
		if parse(text) {
			return true
		}
	}
	for _, f := range p.forms {
		if p.inside && f.by != Driver || strings.Contains(f.text, "{error}") {
			continue
		}
		if m, found := match(f.text, text); found {
			p.apply(f, m)
			p.Words = formOf(f.text)
			leaf := ComponentWords
			if f.by == Driver {
				leaf = DriverWords
			}
			return p.end(leaf, text)
		}
	}
	return false
}

// request parses an error of net/url: Get "https://...": cause.
func (p *parser) request(text string) bool {
	method, rest, found := strings.Cut(text[:min(len(text), nameLimit)], ` "`)
	address, _, ended := strings.Cut(rest, `": `)
	if !found || !ended || !slices.Contains([]string{
		"Get", "Post", "Put", "Delete", "Patch", "Head", "Options", "parse",
	}, method) {
		return false
	}
	p.name(URL, address)
	if service, resource := resourceOf(address); service != "" {
		p.name(Resource, resource)
	}
	p.chain(text[len(method)+len(address)+len(` "": `):])
	return p.Leaf != ""
}

// network parses an error of package net: "dial tcp 10.0.0.1:443: connect: connection refused".
func (p *parser) network(text string) bool {
	operation, rest, found := strings.Cut(text, " ")
	switch operation {
	case "dial", "read", "write", "proxyconnect":
	case "lookup":
		host, cause, found := strings.Cut(rest, ": ")
		if found {
			host, _, _ = strings.Cut(host, " on ")
			p.name(Address, host)
			return p.end(Lookup, cause)
		}
		return false
	default:
		return false
	}
	network, rest, _ := strings.Cut(rest, " ")
	kind, end := strings.CutSuffix(network, ":")
	known := slices.Contains([]string{
		"tcp", "tcp4", "tcp6", "udp", "udp4", "udp6", "unix",
	}, kind)
	if !found || !known {
		return false
	}
	if !end {
		address, cause, found := strings.Cut(rest, ": ")
		if !found || strings.Count(address, " ") > 0 {
			return false
		}
		p.name(Address, address)
		rest = cause
	}
	p.chain(rest)
	return p.Leaf != ""
}

// phrase parses errors of constant texts.
func (p *parser) phrase(text string) bool {
	for _, known := range phrases() {
		if text == known.text || known.more && strings.HasPrefix(text, known.text) {
			return p.end(known.leaf, text)
		}
	}
	return false
}

type phrase struct {
	leaf Leaf
	text string
	// more is set if details follow.
	more bool
}

// phrases are errors of Go 1.26 (context, net, net/http, crypto/tls, crypto/x509), grpc 1.81,
// k8s.io/apimachinery/pkg/util/wait 0.36 and gophercloud 2.13.
func phrases() []phrase {
	return []phrase{
		{Deadline, "context deadline exceeded", true},
		{Deadline, "timed out waiting for the condition", false},
		{Deadline, "client rate limiter Wait returned an error: context deadline exceeded", false},
		{Deadline, "stream terminated by RST_STREAM with error code: CANCEL", false},
		{Canceled, "context canceled", true},
		{NetworkTimeout, "i/o timeout", false},
		{NetworkTimeout, "operation was canceled", false},
		{NetworkTimeout, "net/http: TLS handshake timeout", false},
		{NetworkTimeout, "net/http: timeout awaiting response headers", false},
		{NetworkTimeout, "net/http: request canceled", true},
		{Lookup, "no such host", false},
		{Lookup, "server misbehaving", false},
		{Reset, "EOF", false},
		{Reset, "unexpected EOF", false},
		{Reset, "http: server closed idle connection", false},
		{Reset, "error reading from server: EOF", false},
		{Reset, "use of closed network connection", false},
		{Certificate, "x509: ", true},
		{Certificate, "tls: failed to verify certificate", true},
		{TLS, "tls: ", true},
		{TLS, "remote error: tls: ", true},
		{TLS, "local error: tls: ", true},
		{HTTP, "http: ", true},
		{HTTP, "net/http: ", true},
		{HTTP, "http2: ", true},
		{HTTP, "malformed HTTP ", true},
		{HTTP, "stopped after 10 redirects", false},
		{HTTP, "unsupported protocol scheme ", true},
		{HTTP, "invalid character ", true},
		{Client, "Authentication failed", false},
		{Client, "A time out occurred", false},
		{Client, "No suitable endpoint could be found in the service catalog.", false},
		{Client, "No suitable service could be found in the service catalog.", false},
		{Client, "Missing input for argument [", true},
		{Client, "Invalid input provided for argument [", true},
		{Client, "You must provide ", true},
		{Client, "Exactly one of Username and UserID must be provided", true},
		{Client, "unable to find a supported ", true},
	}
}

// command parses what k8s.io/mount-utils prints about mount and umount, and an error of os/exec.
func (p *parser) command(text string) bool {
	head, output, found := strings.Cut(text, "\nOutput: ")
	exit, failed := strings.CutPrefix(head, "mount failed: ")
	name := "mount"
	if !failed {
		exit, failed = strings.CutPrefix(head, "unmount failed: ")
		name = "umount"
	}
	if found && failed {
		exit, arguments, _ := strings.Cut(exit, "\nMounting command: ")
		if shown, rest, found := strings.Cut(arguments, "\nMounting arguments: "); found {
			name, arguments = shown, rest
		} else {
			exit, arguments, _ = strings.Cut(exit, "\nUnmounting arguments: ")
		}
		p.Command = &Command{name, arguments, exit, strings.TrimSpace(output)}
		return p.end(Mount, output)
	}
	status, output, _ := strings.Cut(text, ": ")
	word, number, found := strings.Cut(status, " ")
	switch {
	case found && word == "exit" && strings.HasPrefix(number, "status "),
		found && status == "signal", found && word == "signal:":
		p.Command = &Command{Exit: status, Output: strings.TrimSpace(output)}
		return p.end(CommandFailed, text)
	case strings.HasPrefix(text, `exec: "`), strings.HasPrefix(text, "fork/exec "):
		p.Command = &Command{Exit: text}
		return p.end(CommandFailed, text)
	}
	return false
}

// system parses the text of an error number of Linux, with the system call before it.
func (p *parser) system(text string) bool {
	call, cause, found := strings.Cut(text, ": ")
	if !found {
		cause = text
	}
	if found && slices.Contains([]string{"connect", "read", "write", "sendto", "recvfrom"}, call) {
		p.chain(cause)
		return p.Leaf != ""
	}
	if name, path, found := strings.Cut(call, " "); found && isWord(name) &&
		strings.HasPrefix(path, "/") && isNumber(cause) {
		p.name(Path, path)
		return p.end(System, cause)
	}
	switch cause = text; {
	case cause == syscall.ECONNREFUSED.Error():
		return p.end(Refused, cause)
	case cause == syscall.ECONNRESET.Error(), cause == syscall.EPIPE.Error():
		return p.end(Reset, cause)
	case cause == syscall.ETIMEDOUT.Error():
		return p.end(NetworkTimeout, cause)
	case cause == syscall.EHOSTUNREACH.Error(), cause == syscall.ENETUNREACH.Error(),
		cause == syscall.EHOSTDOWN.Error():
		return p.end(Unreachable, cause)
	}
	return isNumber(text) && p.end(System, text)
}

// isNumber returns whether a text is that of an error number.
func isNumber(text string) bool {
	for number := syscall.Errno(1); number < 134; number++ {
		if number.Error() == text {
			return true
		}
	}
	return false
}
