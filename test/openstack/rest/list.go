package rest

import (
	"cmp"
	"errors"
	"maps"
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

// Collection says how a service lists records of one type.
type Collection[T any] struct {
	// Name is the key of the list in the answer, such as volumes.
	Name string
	// Links is the key of the link to the next page.
	Links string
	// NextPath is the path of the next page; that of the request if it is empty.
	NextPath string
	// Keep returns whether the query asks for a record.
	Keep     func(T) bool
	Created  func(T) time.Time
	Describe func(T) map[string]any
	// Missing returns the error of a marker that does not exist; 404 if it is nil.
	Missing func(marker string) error
}

// Answer lists the records that the query asks for, the newest first: limit records (all if it is
// zero) after the one with the ID marker, and after offset more. The keys of records are IDs.
func (c Collection[T]) Answer(r *Request, records map[string]T) (Answer, error) {
	ids := slices.SortedFunc(maps.Keys(records), func(a, b string) int {
		return cmp.Or(c.Created(records[b]).Compare(c.Created(records[a])), strings.Compare(b, a))
	})
	ids = slices.DeleteFunc(ids, func(id string) bool { return !c.Keep(records[id]) })
	ids, full, err := c.page(r, ids)
	if err != nil {
		return Answer{}, err
	}
	list := []any{}
	for _, id := range ids {
		list = append(list, c.Describe(records[id]))
	}
	content := map[string]any{c.Name: list}
	if full { // services do not check whether there are more
		query := r.URL.Query()
		query.Set("marker", ids[len(ids)-1])
		href := r.Endpoint + cmp.Or(c.NextPath, r.URL.Path) + "?" + query.Encode()
		content[c.Links] = []map[string]string{{"rel": "next", "href": href}}
	}
	return Answer{Content: content}, nil
}

// page returns the part of a list that the query asks for, and whether it has limit records.
func (c Collection[T]) page(r *Request, ids []string) (page []string, full bool, err error) {
	limit, errLimit := r.integer("limit")
	offset, errOffset := r.integer("offset")
	if err := errors.Join(errLimit, errOffset); err != nil {
		return nil, false, err
	}
	if marker := r.URL.Query().Get("marker"); marker != "" {
		i := slices.Index(ids, marker)
		switch {
		case i < 0 && c.Missing != nil:
			return nil, false, c.Missing(marker)
		case i < 0:
			return nil, false, NotFound("")
		}
		ids = ids[i+1:]
	}
	ids = ids[min(offset, len(ids)):]
	if limit == 0 || limit > len(ids) {
		return ids, false, nil
	}
	return ids[:limit], true, nil
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
