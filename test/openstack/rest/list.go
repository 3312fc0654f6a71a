package rest

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
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
	// Links is the key of the link to the next page; "" if the service does not link it.
	Links string
	// NextPath is the path of the next page; that of the request if it is empty.
	NextPath string
	ID       func(T) string
	Created  func(T) time.Time
	// Describe returns a record with its details, and Summarize what lists without details contain.
	// Lists whose path does not end in /detail have details too if Summarize is nil.
	Describe, Summarize func(T) map[string]any
	// Missing returns the error of a marker that does not exist; 404 if it is nil.
	Missing func(marker string) error
}

// Answer lists the records that the query asks for, the newest first: limit records (all if it is
// zero) after the one with the ID marker, and after offset more.
func (c Collection[T]) Answer(r *Request, records []T) (Answer, error) {
	slices.SortFunc(records, func(a, b T) int {
		return cmp.Or(c.Created(b).Compare(c.Created(a)), strings.Compare(c.ID(b), c.ID(a)))
	})
	records, full, err := c.page(r, records)
	if err != nil {
		return Answer{}, err
	}
	describe := c.Describe
	if c.Summarize != nil && !strings.HasSuffix(r.URL.Path, "/detail") {
		describe = c.Summarize
	}
	list := []any{}
	for _, record := range records {
		list = append(list, describe(record))
	}
	content := map[string]any{c.Name: list}
	if full && c.Links != "" { // services do not check whether there are more
		query := r.URL.Query()
		query.Set("marker", c.ID(records[len(records)-1]))
		href := r.Endpoint + cmp.Or(c.NextPath, r.URL.Path) + "?" + query.Encode()
		content[c.Links] = []map[string]string{{"rel": "next", "href": href}}
	}
	return Answer{Content: content}, nil
}

// page returns the part of a list that the query asks for, and whether it has limit records.
func (c Collection[T]) page(r *Request, records []T) (page []T, full bool, err error) {
	limit, errLimit := r.integer("limit")
	offset, errOffset := r.integer("offset")
	if err := errors.Join(errLimit, errOffset); err != nil {
		return nil, false, err
	}
	if marker := r.URL.Query().Get("marker"); marker != "" {
		i := slices.IndexFunc(records, func(record T) bool { return c.ID(record) == marker })
		switch {
		case i < 0 && c.Missing != nil:
			return nil, false, c.Missing(marker)
		case i < 0:
			return nil, false, NotFound("")
		}
		records = records[i+1:]
	}
	records = records[min(offset, len(records)):]
	if limit == 0 || limit > len(records) {
		return records, false, nil
	}
	return records[:limit], true, nil
}

// Summary returns what lists without details contain for most resources.
func (r *Request) Summary(collection, id, name string) map[string]any {
	return map[string]any{"id": id, "name": Optional(name), "links": r.Links(collection, id)}
}

// Matches returns whether the query does not filter by a key, or by that value.
func (r *Request) Matches(key, value string) bool {
	query := r.URL.Query()
	return !query.Has(key) || query.Get(key) == value
}

// Filter returns the records for which keep is true.
func Filter[T any](records []T, keep func(T) bool) []T {
	return slices.DeleteFunc(records, func(record T) bool { return !keep(record) })
}

// Metadata returns metadata that are not nil, which JSON would show as null.
func Metadata(metadata map[string]string) map[string]string {
	if metadata == nil {
		return map[string]string{}
	}
	return metadata
}

// NewMetadata returns the metadata of a resource after a request that adds some (POST) or replaces
// all (PUT).
func (r *Request) NewMetadata(old map[string]string) (map[string]string, error) {
	var wanted map[string]string
	if err := r.Decode("metadata", &wanted); err != nil {
		return nil, err
	}
	metadata := map[string]string{}
	if r.Method == http.MethodPost {
		maps.Copy(metadata, old)
	}
	maps.Copy(metadata, wanted)
	return metadata, nil
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
