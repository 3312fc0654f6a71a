package rest

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// Integer returns a number of the query that is not negative, or -1 if it is not in the query.
func (r *Request) Integer(name string) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return -1, nil
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

// Page is a part of a list.
type Page[T any] struct {
	Items []T
	// Next is the query of the next page, or nil: services link a next page if this one is full.
	Next url.Values
}

// Paged returns the part of a list that the query asks for: limit items (no limit if it is zero)
// after the item with the ID marker, and after offset more. If the marker does not exist, it
// returns the error that missing returns.
func Paged[T any](
	r *Request, items []T, id func(T) string, missing func(string) error,
) (Page[T], error) {
	limit, err := r.Integer("limit")
	if err != nil {
		return Page[T]{}, err
	}
	offset, err := r.Integer("offset")
	if err != nil {
		return Page[T]{}, err
	}
	if marker := r.URL.Query().Get("marker"); marker != "" {
		i := slices.IndexFunc(items, func(item T) bool { return id(item) == marker })
		if i < 0 {
			return Page[T]{}, missing(marker)
		}
		items = items[i+1:]
	}
	items = items[min(max(offset, 0), len(items)):]
	if limit <= 0 || limit > len(items) {
		return Page[T]{Items: items}, nil
	}
	page := Page[T]{Items: items[:limit], Next: r.URL.Query()}
	page.Next.Set("marker", id(page.Items[limit-1]))
	return page, nil
}

// NextLink returns the links of a page, which is at path below the endpoint.
func (p Page[T]) NextLink(r *Request, path string) []map[string]string {
	href := r.Endpoint + path + "?" + p.Next.Encode()
	return []map[string]string{{"rel": "next", "href": href}}
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

// Newest sorts records by the time when they were created, newest first, as services list them.
func Newest[T any](records []T, created func(T) time.Time, id func(T) string) []T {
	slices.SortFunc(records, func(a, b T) int {
		if order := created(b).Compare(created(a)); order != 0 {
			return order
		}
		return strings.Compare(id(b), id(a))
	})
	return records
}
