package rest

import (
	"regexp"
	"strconv"
	"time"
)

// Time returns a time as the services write it: UTC without a zone, nil if it is zero.
func Time(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000")
}

// Optional returns the text, or nil (null in JSON) if it is empty.
func Optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// Links returns the links of a resource.
func (r *Request) Links(collection, id string) []map[string]string {
	bookmark := regexp.MustCompile(`/v[0-9.]+(/|$)`).ReplaceAllString(r.Endpoint, "$1")
	return []map[string]string{
		{"rel": "self", "href": r.Endpoint + "/" + collection + "/" + id},
		{"rel": "bookmark", "href": bookmark + "/" + collection + "/" + id},
	}
}

// integer returns a number of the query that is not negative, 0 if it is not in the query.
func (r *Request) integer(name string) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return 0, BadRequest("%s param must be an integer", name)
	}
	if number < 0 {
		return 0, BadRequest("%s param must be positive", name)
	}
	return number, nil
}

// Matches returns whether the query does not filter by a key, or by that value.
func (r *Request) Matches(key, value string) bool {
	query := r.URL.Query()
	return !query.Has(key) || query.Get(key) == value
}

// Metadata returns metadata that are not nil, which JSON would show as null.
func Metadata(metadata map[string]string) map[string]string {
	if metadata == nil {
		return map[string]string{}
	}
	return metadata
}

// Keywords parses a dictionary of texts as Python writes it, which clients send as a filter for
// metadata: {'key':'value'}.
func Keywords(text string) map[string]string {
	keywords := map[string]string{}
	for _, pair := range regexp.MustCompile(`'([^']*)'\s*:\s*'([^']*)'`).
		FindAllStringSubmatch(text, -1) {
		keywords[pair[1]] = pair[2]
	}
	return keywords
}

// Contains returns whether the metadata contain all keywords.
func Contains(metadata, keywords map[string]string) bool {
	for key, value := range keywords {
		if metadata[key] != value {
			return false
		}
	}
	return true
}
