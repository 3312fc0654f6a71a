package fault

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// answer parses gophercloud's unexpected response and those around a new login.
func (p *parser) answer(text string) bool {
	rest, found := strings.CutPrefix(text, "Expected HTTP response code [")
	if !found {
		return p.oldAnswer(text)
	}
	_, rest, found = strings.Cut(rest, "] when accessing [")
	request, rest, got := strings.Cut(rest, "], but got ")
	status, body, instead := strings.Cut(rest, " instead:")
	code, err := strconv.Atoi(status)
	if !found || !got || !instead || err != nil {
		return false
	}
	p.answered(code, request, body)
	return true
}

// oldAnswer parses the responses that gophercloud v1 has formats of its own for.
func (p *parser) oldAnswer(text string) bool {
	for _, known := range []struct {
		words  string
		status int
	}{
		{"Bad request with: [", 400},
		{"Request forbidden: [", 403},
		{"Resource not found: [", 404},
	} {
		if rest, found := strings.CutPrefix(text, known.words); found {
			request, body, found := strings.Cut(rest, "], error message:")
			if found {
				p.answered(known.status, request, body)
			}
			return found
		}
	}
	return false
}

func (p *parser) answered(status int, request, body string) {
	method, address, _ := strings.Cut(request, " ")
	a := &Answer{Status: status, Method: method, URL: address}
	a.Service, a.Resource = resourceOf(address)
	body = strings.TrimSpace(body)
	rest := a.read(body)
	p.Answer = a
	p.end(Answered, cmp.Or(a.Message, body))
	if rest, found := strings.CutPrefix(strings.TrimSpace(rest), ": "); found {
		p.chain(rest) // the login that followed
		if p.Leaf != Answered {
			p.Answer = nil
		}
	}
}

// read reads the body and returns what follows it.
func (a *Answer) read(body string) (rest string) {
	if i := strings.Index(body, ": Expected HTTP response code ["); i >= 0 &&
		!strings.HasPrefix(body, "{") {
		body, rest = body[:i], body[i:]
	}
	switch {
	case strings.HasPrefix(body, "{"):
		rest = a.readJSON(body)
	case strings.HasPrefix(body, "<"):
		a.Message = title(body)
	default:
		a.Message = body
	}
	a.Message = withoutID(a.Message)
	return rest
}

// readJSON reads the first kind and message of a JSON object, which may be cut.
func (a *Answer) readJSON(body string) (rest string) {
	decoder := json.NewDecoder(strings.NewReader(body))
	var path []string
	key := ""
	for {
		before := decoder.InputOffset()
		token, err := decoder.Token()
		if err != nil {
			if a.Message == "" && isMessage(key) {
				a.Message = strings.Trim(body[before:], `: "`)
			}
			return ""
		}
		switch value := token.(type) {
		case json.Delim:
			if value == '}' || value == ']' {
				path = path[:len(path)-1]
				if len(path) == 0 {
					return body[decoder.InputOffset():]
				}
			} else {
				if len(path) == 1 && value == '{' && a.Kind == "" {
					a.Kind = key
				}
				path = append(path, string(rune(value)))
			}
			key = ""
		case string:
			switch inArray := path[len(path)-1] == "["; {
			case inArray:
			case key == "":
				key = value
			default:
				if a.Message == "" && isMessage(key) {
					a.Message = value
				}
				key = ""
			}
		default:
			key = ""
		}
	}
}

func isMessage(key string) bool {
	return slices.Contains([]string{"message", "faultstring", "detail", "error_message"}, key)
}

// title returns the title of a page of HTML, else its first heading.
func title(page string) string {
	for _, tag := range []string{"title>", "h1>"} {
		if _, rest, found := strings.Cut(page, "<"+tag); found {
			text, _, _ := strings.Cut(rest, "<")
			return strings.TrimSpace(text)
		}
	}
	return page
}

// withoutID cuts the status and the request's ID that services append to messages of others.
func withoutID(message string) string {
	message = strings.TrimSpace(message)
	for {
		cut := message
		for _, begin := range []string{" (Request-ID: ", " (HTTP "} {
			if i := strings.LastIndex(cut, begin); i >= 0 && strings.HasSuffix(cut, ")") &&
				!strings.Contains(cut[i+len(begin):len(cut)-1], " ") {
				cut = cut[:i]
			}
		}
		if cut == message {
			return cut
		}
		message = cut
	}
}

// resourceOf returns which service a URL belongs to, and the last collection in its path.
func resourceOf(address string) (service, resource string) {
	u, err := url.Parse(address)
	if err != nil {
		return "", ""
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	i := slices.IndexFunc(parts, func(part string) bool {
		return len(part) > 1 && part[0] == 'v' && part[1] >= '1' && part[1] <= '9'
	})
	if i < 0 {
		return "", ""
	}
	for _, part := range parts[i+1:] {
		if slices.Contains(collections(), part) {
			resource = part
		}
	}
	first := append(parts[i+1:], "")[0]
	switch version := parts[i]; {
	case version == "v2.1":
		return "compute", resource
	case version == "v2.0":
		return "network", resource
	case version == "v3" && slices.Contains([]string{"", "auth", "projects", "users"}, first):
		return "identity", resource
	case version == "v3":
		return "volume", resource
	case version == "v2" || version == "v1":
		return "share", resource
	}
	return "", resource
}

// collections are those of the requests that drivers and operators send, see
// docs/openstack-requests.md.
func collections() []string {
	return []string{
		"servers", "os-volume_attachments", "flavors", "os-availability-zone", "extensions",
		"volumes", "snapshots", "backups", "types", "limits", "qos-specs", "os-quota-sets",
		"shares", "share-types", "types", "share-networks", "share-access-rules", "export_locations",
		"messages", "metadata", "quota-sets", "availability-zones", "services", "share_instances",
		"tokens", "catalog", "projects", "users", "application_credentials",
	}
}
