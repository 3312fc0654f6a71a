package fault

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// unexpected is how gophercloud begins its error about a response.
const unexpected = "Expected HTTP response code ["

// answer parses what gophercloud says about a response of OpenStack.
func (p *parser) answer(text string) bool {
	status, request, body, found := cutAnswer(text)
	if !found {
		return false
	}
	a := &Answer{Status: status}
	a.Method, a.URL, _ = strings.Cut(request, " ")
	a.Service, a.Resource = resourceOf(a.URL)
	body = strings.TrimSpace(body)
	rest := a.read(body)
	p.Answer = a
	p.end(Answered, cmp.Or(a.Message, body, text))
	if login, found := strings.CutPrefix(rest, ": "); found { // the login that followed
		p.Leaf = ""
		switch p.chain(login); p.Leaf {
		case "":
			p.end(Answered, cmp.Or(a.Message, body))
		case Answered:
		default:
			p.Answer = nil
		}
	}
	return true
}

// cutAnswer cuts the format of gophercloud 2.5 to 2.13.
func cutAnswer(text string) (status int, request, body string, found bool) {
	rest, begins := strings.CutPrefix(text, unexpected)
	_, rest, _ = strings.Cut(rest, "] when accessing [")
	request, rest, _ = strings.Cut(rest, "], but got ")
	number, body, found := strings.Cut(rest, " instead:")
	status, err := strconv.Atoi(number)
	return status, request, body, begins && found && err == nil
}

// read reads the body and returns what follows it.
func (a *Answer) read(body string) (rest string) {
	switch {
	case strings.HasPrefix(body, "{"):
		rest = a.readJSON(body)
	case strings.HasPrefix(body, "<"):
		a.Message = title(body)
	default:
		if i := strings.Index(body, ": "+unexpected); i >= 0 {
			body, rest = body[:i], body[i:]
		}
		a.Message = body
	}
	a.Message = withoutID(a.Message)
	return rest
}

// readJSON reads the kind and the message of an error in JSON, whose end may be cut.
func (a *Answer) readJSON(body string) (rest string) {
	for _, end := range []string{"", "}", "}}", `"}`, `"}}`, `":0}`, `":0}}`, `0}`, `0}}`} {
		decoder := json.NewDecoder(strings.NewReader(body + end))
		var fields map[string]any
		if decoder.Decode(&fields) == nil {
			a.Message = messageOf(fields)
			for _, kind := range slices.Sorted(maps.Keys(fields)) {
				if inner, nested := fields[kind].(map[string]any); nested && a.Message == "" {
					a.Kind, a.Message = kind, messageOf(inner)
				}
			}
			return body[min(len(body), int(decoder.InputOffset())):]
		}
	}
	return ""
}

func messageOf(fields map[string]any) string {
	for _, key := range []string{"message", "faultstring", "detail", "error_message", "title"} {
		if text, found := fields[key].(string); found {
			return text
		}
	}
	return ""
}

// title returns the title of a page of HTML, else its first heading, else all of it.
func title(page string) string {
	for _, tag := range []string{"title>", "h1>"} {
		if _, rest, found := strings.Cut(page, "<"+tag); found {
			text, _, _ := strings.Cut(rest, "<")
			return strings.TrimSpace(text)
		}
	}
	return page
}

// withoutID cuts what services append to messages: marks of HTML, and the status and the ID of a
// request to another service.
func withoutID(message string) string {
	message = strings.TrimSpace(strings.ReplaceAll(message, "<br />", " "))
	for _, begin := range []string{" (Request-ID: ", " (HTTP "} {
		i := strings.LastIndex(message, begin)
		if i >= 0 && strings.IndexByte(message[i:], ')') == len(message[i:])-1 {
			message = message[:i]
		}
	}
	return message
}

// resourceOf returns which service a URL belongs to, and the last collection in its path.
func resourceOf(address string) (service, resource string) {
	u, err := url.Parse(address)
	if err != nil {
		return "", ""
	}
	parts := strings.Split(strings.Trim(u.Path, "/")+"/", "/")
	services := map[string]string{"v2.1": "compute", "v3": "volume", "v2": "share", "v2.0": "network"}
	for i, part := range parts {
		if service == "" {
			if service = services[part]; service == "volume" &&
				slices.Contains([]string{"", "auth", "projects", "users"}, parts[i+1]) {
				service = "identity"
			}
		} else if slices.Contains(collections(), part) {
			resource = part
		}
	}
	return service, resource
}

// collections are those of the requests that drivers and operators send.
func collections() []string {
	return []string{
		"servers", "os-volume_attachments", "os-availability-zone", "volumes", "snapshots", "backups",
		"types", "limits", "shares", "share-networks", "share-access-rules", "export_locations",
		"messages", "metadata", "quota-sets", "os-quota-sets", "tokens", "catalog", "users",
		"application_credentials",
	}
}

// operator parses what operators and CSI-Addons say about OpenStack, see pkg/openstack.
func (p *parser) operator(text string) bool {
	service, rest, found := strings.Cut(text, " at ")
	address, words, _ := strings.Cut(rest, " ")
	if !found || !strings.HasPrefix(service, "OpenStack's ") || !strings.HasPrefix(address, "http") {
		return false
	}
	p.reports(Operator, "")
	p.name(URL, strings.TrimSuffix(address, ","))
	cause := strings.TrimPrefix(words, "cannot be used: ")
	_, number, _ := strings.Cut(words, "HTTP ")
	if status, err := strconv.Atoi(number[:min(len(number), 3)]); err == nil {
		p.Answer = &Answer{Status: status, URL: p.Names[URL], Message: words}
		p.Answer.Service, p.Answer.Resource = resourceOf(p.Names[URL])
		p.end(Answered, words)
		return true
	}
	p.Message = cause
	sentence, _, _ := strings.Cut(cause, ". ")
	p.frame(sentence)
	p.Message = cause
	return true
}
