// Package comparison sends the same requests to two clouds and lists the fields in which their
// answers differ. Its tests compare the simulator with recorded answers of the real services, and
// these with the services, and fail if the simulator answers differently without a reason.
package comparison

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Request is a request to a service. Words in braces, such as {project}, in URLs, headers and
// bodies are replaced by values of the cloud, and by values that an earlier answer contained.
type Request struct {
	// Name names the request in differences. Requests have different names.
	Name string `json:"name"`
	// Request is method, service and path below the endpoint of the service:
	// "GET share/types?is_public=all". A path that starts with two slashes, as in "GET share//", is
	// below the address of the service, without the version of the API. With the method SET, it is
	// what a manager of storage does, a status and the IDs of messages, which has no answer:
	// "SET volume/{volume_id} error 001:003".
	Request string `json:"request"`
	// Header contains additional fields. The field X-Auth-Token is that of the first login, unless the
	// request has another one.
	Header map[string]string `json:"header"`
	// Body is JSON, or any text.
	Body string `json:"body"`
	// Save names values of the answer for later requests, each by its field.
	Save map[string]string `json:"save"`
}

// Difference is a field in which two answers differ. Empty values mean that the answer does not
// contain the field.
type Difference struct {
	Request, Field, Simulator, Services string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: simulator %s, services %s", d.Request, d.Field, d.Simulator,
		d.Services)
}

// Known is a difference, or several, that stay. Request and Field are patterns of path.Match.
type Known struct {
	Request string `json:"request"`
	Field   string `json:"field"`
	Reason  string `json:"reason"`
}

// Judge returns the differences that are not known, and those of the known ones that do not exist
// any more.
func Judge(found []Difference, known []Known) (unknown []Difference, stale []Known) {
	stale = slices.Clone(known)
	for _, d := range found {
		matches := func(k Known) bool { return match(k.Request, d.Request) && match(k.Field, d.Field) }
		if !slices.ContainsFunc(known, matches) {
			unknown = append(unknown, d)
		}
		stale = slices.DeleteFunc(stale, matches)
	}
	return unknown, stale
}

// match matches a name with a pattern of path.Match. Slashes are like all other characters, and
// brackets are not special.
func match(pattern, name string) bool {
	plain := strings.NewReplacer("/", "\x00", "[", "\x01", "]", "\x02")
	matched, err := path.Match(plain.Replace(pattern), plain.Replace(name))
	return matched && err == nil
}

// Compare returns the differences between two answers to a request, in the order of the fields.
func Compare(request string, simulator, services Fields) []Difference {
	names := map[string]bool{}
	for name := range simulator {
		names[name] = true
	}
	for name := range services {
		names[name] = true
	}
	var found []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if simulator[name] != services[name] {
			found = append(found, Difference{request, name, simulator[name], services[name]})
		}
	}
	return found
}

// Fields are the parts of an answer by their name: "status", "header Content-Type", and those of a
// JSON body by the path to them, such as ".share_types[0].name". Values that two clouds cannot have
// in common, such as IDs and times, are replaced by their form.
type Fields map[string]string

// headers are the fields of an answer's header that clients read.
func headers() []string {
	return []string{
		"Content-Type", "Location", "Openstack-Api-Version", "Retry-After", "Vary",
		"Www-Authenticate", "X-Compute-Request-Id", "X-Openstack-Manila-Api-Version",
		"X-Openstack-Nova-Api-Version", "X-Openstack-Request-Id", "X-Subject-Token",
	}
}

// NewFields takes an answer apart. The names are the values of the cloud, which are replaced by
// their name.
func NewFields(status int, header http.Header, body []byte, names map[string]string) Fields {
	fields := Fields{"status": fmt.Sprint(status)}
	form := newForm(names)
	for _, name := range headers() {
		if value := header.Get(name); value != "" {
			fields["header "+name] = form.of(value)
		}
	}
	var content any
	if err := json.Unmarshal(body, &content); err != nil {
		fields["body"] = form.of(string(body))
		return fields
	}
	fields.add("", content, form)
	return fields
}

// add adds a JSON value. An empty list and an empty object are fields too.
func (f Fields) add(name string, content any, form form) {
	switch value := content.(type) {
	case map[string]any:
		if len(value) == 0 {
			f[name] = "{}"
		}
		for key, element := range value {
			f.add(name+"."+form.names.Replace(key), element, form)
		}
	case []any:
		if len(value) == 0 {
			f[name] = "[]"
		}
		if strings.HasSuffix(name, ".roles") { // Keystone lists them in any order
			slices.SortFunc(value, func(a, b any) int {
				return strings.Compare(fmt.Sprint(a.(map[string]any)["name"]),
					fmt.Sprint(b.(map[string]any)["name"]))
			})
		}
		for i, element := range value {
			f.add(fmt.Sprintf("%s[%d]", name, i), element, form)
		}
	case string:
		f[name] = fmt.Sprintf("%q", form.of(value))
	default:
		f[name] = fmt.Sprint(value)
	}
}

// form replaces what two clouds cannot have in common.
type form struct {
	names   *strings.Replacer
	unknown []replacement
}

type replacement struct {
	pattern *regexp.Regexp
	form    string
}

// newForm returns the form for a cloud. Longer values are replaced first, because they may contain
// shorter ones.
func newForm(names map[string]string) form {
	keys := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return len(names[b]) - len(names[a])
	})
	var pairs []string
	for _, key := range keys {
		if names[key] != "" {
			pairs = append(pairs, names[key], "{"+key+"}")
		}
	}
	return form{names: strings.NewReplacer(pairs...), unknown: []replacement{
		{regexp.MustCompile(`gAAAAA[A-Za-z0-9_=-]+`), "{token}"},
		{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "{uuid}"},
		{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "{hex}"},
		{regexp.MustCompile(`127\.0\.0\.1:\d+`), "{address}"},
		{regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`), "{random}"},
		{regexp.MustCompile(`\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d`), "{date}${1}{time}"},
		{regexp.MustCompile(`\{time\}\.\d{6}`), "{time}.{microseconds}"},
	}}
}

func (f form) of(value string) string {
	value = f.names.Replace(value)
	for _, r := range f.unknown {
		value = r.pattern.ReplaceAllString(value, r.form)
	}
	return value
}
